"""Evidence of a rank that may not be able to answer: what there is, and why the rest is missing."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from zmon import evidence
from zmon.box import BoxReader

SCRIPT = """
    import time, zmon
    def guilty_line():
        time.sleep(60)
    assert zmon.attach()
    print("attached", flush=True)
    guilty_line()
"""


@pytest.fixture
def rank(start_rank):
    """A rank with a worker server, asleep."""
    started = start_rank(SCRIPT)
    started.says("attached")
    reader = BoxReader(started.box)
    started.socket = reader.identity().socket
    reader.close()
    return started


def gather(pid, socket):
    return asyncio.run(evidence.gather(pid, Path(socket)))


def test_stack_names_the_line(rank):
    found = gather(rank.pid, rank.socket)
    assert "guilty_line" in found["stack"]
    assert found["stack_error"] is None
    assert found["pid"] == rank.pid


def test_socket_is_nobody_elses(rank):
    assert oct(Path(rank.socket).stat().st_mode)[-3:] == "600"


def test_stopped_rank_has_no_stack_and_that_is_said(rank, monkeypatch):
    monkeypatch.setattr(evidence, "STACK_TIMEOUT_SECONDS", 0.2)
    rank.signal(signal.SIGSTOP)
    found = gather(rank.pid, rank.socket)
    assert found["stack"] is None
    assert "did not answer within 0.2 s" in found["stack_error"]


def test_dead_rank_has_no_stack_and_that_is_said(rank):
    rank.signal(signal.SIGKILL)
    rank.wait()
    found = gather(rank.pid, rank.socket)
    assert found["stack"] is None
    assert "cannot be asked" in found["stack_error"]
    assert found["wchan"] is None


def test_rank_without_a_server_says_so():
    assert "no worker server" in gather(os.getpid(), Path())["stack_error"]
