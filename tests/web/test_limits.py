"""Tests of limits: on open files, and on lines in the log that repeat."""

import json
import logging
import resource
import subprocess
import sys

import pytest
from aiohttp.test_utils import unused_port

from zmon.errors import UsageError
from zmon.web.limits import INTERVAL_SECONDS, MAX_CONNECTIONS, MIN_CONNECTIONS, OncePerInterval, connections_within

RAISE = """
import json, resource
from zmon.web.limits import raise_limit
print(json.dumps([raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "limit"),
    [
        pytest.param(256, 2048, 2048, id="to its hard limit"),
        pytest.param(1024, 1024, 1024, id="already there"),
        pytest.param(256, None, None, id="to the hard limit of this machine"),
    ],
)
def test_limit_is_raised_as_far_as_the_process_may(soft, hard, limit):
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = now if hard is None else hard
    child = subprocess.run(
        [sys.executable, "-c", RAISE],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        check=True,
    )
    assert json.loads(child.stdout) == [limit or min(hard, 65_536), limit or min(hard, 65_536), hard]


OWN_FILES_OF_HUB = 1424  # of a hub of 600 agents
FILES_OF_HUB = 1728  # with 3 · ACCEPTED_AT_ONCE and MIN_CONNECTIONS


def test_number_of_connections_has_a_maximum():
    assert connections_within(65_536, reserved=384) == MAX_CONNECTIONS


def test_refusal_says_the_number_of_files_that_are_needed():
    with pytest.raises(UsageError, match=r"1,024 files, but it needs 1,728.*ulimit -n 1728"):
        connections_within(1024, reserved=OWN_FILES_OF_HUB)
    assert connections_within(FILES_OF_HUB, reserved=OWN_FILES_OF_HUB) == MIN_CONNECTIONS


def run_hub(tmp_path, num_agents, soft, hard):
    """Start a hub of so many agents under these limits; return its first line and its exit code, None if it runs."""
    agents = ",".join(f"http://127.0.0.1:{20000 + number}" for number in range(num_agents))
    hub = subprocess.Popen(
        [sys.executable, "-m", "zmon", "hub", "--agents", agents, "--data-dir", str(tmp_path), "--port",
         str(unused_port())],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    line = next(line for line in hub.stdout if "WARNING" not in line)
    try:
        return line, hub.wait(1.0 if "listens" in line else 60.0)
    except subprocess.TimeoutExpired:
        return line, None
    finally:
        hub.kill()
        hub.communicate()


def test_hub_of_600_agents_refuses_to_start_with_too_few_files(tmp_path):
    line, code = run_hub(tmp_path, 600, soft=1024, hard=1024)
    assert code == 2
    assert "may open 1,024 files, but it needs 1,728" in line
    assert "ulimit -n 1728" in line


def test_hub_of_600_agents_starts_with_a_raised_limit(tmp_path):
    line, code = run_hub(tmp_path, 600, soft=1024, hard=FILES_OF_HUB)
    assert "listens" in line
    assert code is None


@pytest.fixture
def log_at():
    """Return a function that logs a text at a time in seconds, and returns what is logged, or None."""
    now = [0.0]
    once = OncePerInterval(lambda: now[0])

    def log(seconds, text, *args):
        now[0] = seconds
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, text, args, None)
        return record.getMessage() if once.filter(record) else None

    return log


def test_repeated_message_is_logged_once_in_ten_seconds(log_at):
    assert log_at(0.0, "socket.accept() out of system resource\nsocket: a") is not None
    for number in range(900):
        assert log_at(0.01 * number, f"socket.accept() out of system resource\nsocket: {number}") is None
    line = log_at(INTERVAL_SECONDS + 0.1, "socket.accept() out of system resource\nsocket: b")
    assert "900 times more in the last 10 s" in line


def test_messages_that_differ_in_an_argument_count_as_one(log_at):
    assert log_at(0.0, "Error handling request from %s", "127.0.0.1") == "Error handling request from 127.0.0.1"
    assert log_at(1.0, "Error handling request from %s", "127.0.0.2") is None


def test_other_message_is_logged_at_once(log_at):
    log_at(0.0, "one")
    assert log_at(0.1, "another") == "another"


def test_many_different_messages_do_not_fill_memory(log_at):
    for number in range(1000):
        log_at(0.0, f"message {number}")
    assert log_at(0.0, "message 0") == "message 0"  # it was forgotten
