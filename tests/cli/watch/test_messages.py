"""Test that `zmon watch` goes on if nobody reads its messages."""

import os
import subprocess
import sys

from tests.places import REPOSITORY

# Nothing reads the pipe: the first message fills it, and later ones beyond the limit are dropped.
SCRIPT = """
import os, time
from zmon.cli.watch.messages import Messages
messages = Messages()
messages.start()
begin = time.monotonic()
for number in range(1000):
    messages.say("x" * 100_000)
messages.close(0.5)
print(time.monotonic() - begin < 5.0, flush=True)
os._exit(0)
"""


def test_messages_that_nobody_reads_hold_up_nobody():
    reader, writer = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=writer, timeout=60
    )
    os.close(reader)
    os.close(writer)
    assert done.stdout == b"True\n"
