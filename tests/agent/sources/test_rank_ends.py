"""Tests of the watch on the end of a rank and of its launcher."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.boxes import eventually
from zmon.agent.sources.rank_ends import RankEnds
from zmon.process import process_stat

PROC = Path("/proc")


@pytest.fixture
def launcher():
    """Yield a process that sleeps until it is killed."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def start_of(pid):
    return process_stat(pid).start_ticks


def gone(ends):
    ends.refresh(1_000_000_000, rank_is_gone=False)
    return ends.launcher_gone_seconds(3_000_000_000) is not None


def test_launcher_is_gone_once_its_process_has_ended(launcher):
    ends = RankEnds(os.getpid(), (launcher.pid, start_of(launcher.pid)), PROC)
    assert not gone(ends)
    launcher.kill()
    assert eventually(lambda: gone(ends))
    assert ends.launcher_gone_seconds(3_000_000_000) == 2.0
    launcher.wait()
    assert eventually(lambda: gone(ends) and ends.launcher_status in (None, "signal SIGKILL"))
    ends.close()


def test_launcher_is_gone_if_its_pid_is_another_processes_now(launcher):
    ends = RankEnds(os.getpid(), (launcher.pid, start_of(launcher.pid) - 100), PROC)
    assert gone(ends)
    assert ends.launcher_status is None
    ends.close()


@pytest.mark.parametrize("known", [None, (1, 0)], ids=["another namespace", "no start"])
def test_launcher_that_cannot_be_watched_is_not_gone(known):
    ends = RankEnds(os.getpid(), known, PROC)
    assert not gone(ends)
    ends.close()


def test_launcher_is_not_gone_if_processes_are_hidden(launcher, tmp_path):
    ends = RankEnds(os.getpid(), (launcher.pid, start_of(launcher.pid)), tmp_path)
    assert not gone(ends)
    ends.close()
