"""Tests of the watch on the end of a rank and of its launcher."""

import os
import signal
import subprocess
import time
from itertools import count

import pytest

from tests.boxes import eventually
from zmon.agent.sources.process_table import ProcessTable
from zmon.agent.sources.rank_ends import RankEnds
from zmon.process import ExitWatch, ProcessKey, process_id

TABLE = ProcessTable()
SECONDS = count()  # a clock that moves on by a second at each call, so that a process table reads /proc every time


def sees_launcher_gone(ends):
    """Refresh the watch at second 1; return True if the launcher is gone then."""
    ends.refresh(1_000_000_000, rank_is_gone=False)
    return ends.launcher_gone_ns is not None


def test_launcher_is_gone_once_its_process_has_ended(sleeper):
    ends = RankEnds(os.getpid(), process_id(sleeper.pid).key, TABLE)
    watch = ExitWatch(sleeper.pid)
    assert not sees_launcher_gone(ends)
    sleeper.kill()
    assert eventually(lambda: sees_launcher_gone(ends))
    assert ends.launcher_gone_ns == 1_000_000_000
    sleeper.wait()
    assert sees_launcher_gone(ends)
    assert ends.launcher_status == watch.exit_status()  # None before Linux 6.15
    watch.close()
    ends.close()


def test_launcher_is_gone_if_its_pid_belongs_to_another_process(sleeper):
    ends = RankEnds(os.getpid(), process_id(sleeper.pid).key._replace(start_ticks=1), TABLE)
    assert sees_launcher_gone(ends)
    assert ends.launcher_status is None
    ends.close()


@pytest.mark.parametrize("known", [None, ProcessKey(1, 0)], ids=["another namespace", "no start"])
def test_launcher_that_cannot_be_watched_is_not_gone(known):
    ends = RankEnds(os.getpid(), known, TABLE)
    assert not sees_launcher_gone(ends)
    ends.close()


def test_launcher_is_not_gone_if_processes_are_hidden(sleeper, tmp_path):
    ends = RankEnds(os.getpid(), process_id(sleeper.pid).key, ProcessTable(tmp_path))
    assert not sees_launcher_gone(ends)
    ends.close()


RESTARTING = """
sleep 60 & echo $!
read rank_has_ended
sleep 60 & echo $!
wait
"""


@pytest.fixture
def restarting():
    """Yield a launcher that starts a rank, waits for a line, and starts the rank again."""
    process = subprocess.Popen(
        ["sh", "-c", RESTARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_launcher_that_starts_its_rank_again_has_relaunched_it(restarting):
    rank = int(restarting.stdout.readline())
    clock = time.monotonic_ns
    table = ProcessTable(clock=lambda: next(SECONDS))
    ends = RankEnds(rank, process_id(restarting.pid).key, table)
    ends.refresh(clock(), rank_is_gone=True)
    assert ends.relaunched_ns is None, "the rank itself is a child of the launcher, too"
    time.sleep(0.05)  # more than a clock tick of 10 ms, to which the kernel rounds starts
    before = clock()
    restarting.stdin.write("\n")
    restarting.stdin.close()

    def relaunched():
        ends.refresh(clock(), rank_is_gone=True)
        return ends.relaunched_ns is not None

    assert eventually(relaunched)
    assert before - 20_000_000 <= ends.relaunched_ns <= clock()  # two clock ticks: starts are rounded
    ends.close()
