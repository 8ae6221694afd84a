"""Let threads decode their first values at once, in fresh processes: msgspec crashes if two threads build a decoder."""

import os
import subprocess
import sys

from tests.places import REPOSITORY

TRIES = 12  # processes in which nothing has been decoded before; without precautions most of them crash
SCRIPT = """
import os, sys, threading
{setup}

sys.setswitchinterval(1e-6)

def decode_at_once():
    start = threading.Barrier(8)
    def decode(number):
        start.wait()
        {decode}
    threads = [threading.Thread(target=decode, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range({tries}):
    child = os.fork()
    if child == 0:
        decode_at_once()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "it crashed"
"""


def decode_in_threads(setup: str, decode: str) -> None:
    """Run statements in all threads, with the `number` of each. Raises AssertionError if a process crashed."""
    script = SCRIPT.format(setup=setup, decode=decode, tries=TRIES)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
