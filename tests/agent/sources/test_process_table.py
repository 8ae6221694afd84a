"""Tests of the table of processes."""

import os
import subprocess

from zmon.agent.sources.process_table import ProcessTable, boot_ticks, ticks_to_ns
from zmon.process import process_stat


def test_newest_child_is_the_last_process_that_a_process_started(sleeper):
    start = process_stat(sleeper.pid).start_ticks
    assert ProcessTable().newest_child(os.getpid()) >= start
    assert 0 <= ticks_to_ns(boot_ticks() - start) < 60_000_000_000


def test_process_without_children_has_no_newest_child(sleeper):
    assert ProcessTable().newest_child(sleeper.pid) is None


def test_processes_are_read_at_most_once_a_second(sleeper):
    now = 10.0
    table = ProcessTable(clock=lambda: now)
    assert table.newest_child(sleeper.pid) is None
    shell = subprocess.Popen(["sh", "-c", "sleep 60; true"])
    try:
        now = 10.9
        assert table.newest_child(shell.pid) is None, "the table of a moment ago"
        now = 11.0
        while table.newest_child(shell.pid) is None:  # until the shell has started its own child
            now += 1.0
        assert table.newest_child(shell.pid) >= process_stat(shell.pid).start_ticks
    finally:
        subprocess.run(["pkill", "-KILL", "-P", str(shell.pid)], check=True)
        shell.wait()


def test_processes_above_one_have_the_start_of_the_process_that_each_started(sleeper):
    table = ProcessTable()
    test, parent = process_stat(os.getpid()), process_stat(os.getppid())
    above = table.above(table.identify(sleeper.pid))
    assert above[os.getpid(), test.start_ticks] == process_stat(sleeper.pid).start_ticks
    assert parent is None or above.get((os.getppid(), parent.start_ticks), test.start_ticks) == test.start_ticks
    assert (sleeper.pid, process_stat(sleeper.pid).start_ticks) not in above


def test_table_of_a_missing_folder_has_no_state(tmp_path):
    assert ProcessTable(tmp_path).stat(1) is None
