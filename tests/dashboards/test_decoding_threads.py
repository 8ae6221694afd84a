"""Test that threads which decode the first answers at once do not crash the dashboard."""

import os
import subprocess
import sys

from tests.places import REPOSITORY

TRIES = 12  # each is a process of its own, in which no answer has been decoded; without the lock most of them crash
SCRIPT = f"""
import os, sys, threading
import msgspec
from dashboards import asking
from zmon.schema.api import FindingList, JobList

sys.setswitchinterval(1e-6)
bodies = [(msgspec.json.encode(JobList([], False)), JobList), (msgspec.json.encode(FindingList([])), FindingList)]

def decode_at_once():
    start = threading.Barrier(8)
    def decode(number):
        start.wait()
        asking._decode(*bodies[number % 2])
    threads = [threading.Thread(target=decode, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range({TRIES}):
    child = os.fork()
    if child == 0:
        decode_at_once()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "it crashed"
"""


def test_first_answers_can_be_decoded_by_threads_at_once():
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
