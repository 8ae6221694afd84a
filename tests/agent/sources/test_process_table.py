"""Tests of the table of processes."""

import os
import subprocess

from tests.boxes import eventually
from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.process import process_stat


def test_newest_child_is_the_last_process_that_a_process_started(sleeper):
    start = process_stat(sleeper.pid).start_ticks
    assert ProcessTable().newest_child_start(os.getpid()) >= start
    assert 0 <= ticks_to_ns(boot_ticks() - start) < 60_000_000_000


def test_processes_are_read_at_most_once_a_second(sleeper):
    now = 10.0
    table = ProcessTable(clock=lambda: now)
    assert table.newest_child_start(sleeper.pid) is None
    shell = subprocess.Popen(["sh", "-c", "sleep 60; true"])
    try:
        assert eventually(lambda: ProcessTable().newest_child_start(shell.pid))
        now = 10.9
        assert table.newest_child_start(shell.pid) is None
        now = 11.0
        assert table.newest_child_start(shell.pid) >= process_stat(shell.pid).start_ticks
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(shell.pid)], check=True)
        shell.wait()


def test_each_ancestor_of_a_process_has_the_start_of_its_child_on_the_way(sleeper):
    table = ProcessTable()
    test, child = process_stat(os.getpid()), process_stat(sleeper.pid)
    ancestors = table.ancestors(table.identify(sleeper.pid))
    assert ancestors[os.getpid(), test.start_ticks] == child.start_ticks
    assert (sleeper.pid, child.start_ticks) not in ancestors
    parent = process_stat(test.parent)
    if test.parent > 1 and parent is not None:  # init is left out
        assert ancestors[test.parent, parent.start_ticks] == test.start_ticks
