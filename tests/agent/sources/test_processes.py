"""Tests of the source that reads the processes of the ranks from /proc."""

import shutil
import subprocess
import sys

import pytest

from tests.boxes import eventually
from zmon.agent.sources.processes import MAX_PROCESSES, WINDOW_SECONDS, ProcessSource
from zmon.process import ProcessId, process_id

SECOND = 10**9  # nanoseconds
STAT = "42 (python) S 1 42 42 0 -1 4194560 900 8 17 2 300 200 1 1 20 0 9 0 5000 99 25 18446744073709551615\n"
STATUS = "Name:\tpython\nUid:\t1000\t1000\n"


@pytest.fixture
def add_rank(tmp_path):
    """Add a rank to a fake /proc, with these files."""
    ranks = {}

    def make(rank, **files):
        pid = 1000 + rank
        ranks[ProcessId(pid, 5000, 1000)] = ("job", rank)
        (tmp_path / str(pid)).mkdir()
        for name, content in ({"stat": STAT, "status": STATUS} | files).items():
            (tmp_path / str(pid) / name).write_text(content)
        return ProcessSource(lambda: ranks, tmp_path, lambda: make.now)

    make.ranks, make.now = ranks, 0.0
    return make


def delay_ratios(add_rank, folder, *samples):
    """Return the delay of rank 0 after each sample, which has the seconds since the last one, and its schedstat."""
    source, ratios = add_rank(0), []
    for seconds, schedstat in samples:
        add_rank.now += seconds
        (folder / "1000/schedstat").write_text(schedstat)
        ratios.append(source.read().value[0].run_delay_ratio)
    return ratios


def test_wait_for_a_processor_is_the_share_of_the_last_seconds(add_rank, tmp_path):
    samples = [(0, f"5 {SECOND} 1"), (2, f"5 {2 * SECOND} 2"), (4, f"5 {4 * SECOND} 3"), (2, f"5 {4 * SECOND} 3")]
    assert WINDOW_SECONDS == 6.0
    assert delay_ratios(add_rank, tmp_path, *samples) == [None, None, 0.5, pytest.approx(1 / 3)]


@pytest.mark.parametrize("schedstat", ["0 0 0", "", "5 7", "a b c", "5 -7 1"])
def test_wait_that_the_kernel_does_not_count_is_unknown_and_not_zero(add_rank, tmp_path, schedstat):
    assert delay_ratios(add_rank, tmp_path, *[(9, schedstat)] * 3) == [None] * 3


def test_wait_of_an_idle_process_is_zero_and_not_unknown(add_rank, tmp_path):
    assert delay_ratios(add_rank, tmp_path, *[(9, "5 7 1")] * 2) == [None, 0.0]


def test_missing_file_is_unknown_and_not_dropped(add_rank):
    reading = add_rank(0).read()
    assert [process.run_delay_ratio for process in reading.value] == [None]
    assert reading.dropped == ()


@pytest.mark.parametrize("odd", ["", "garbage", "42 (python) S 1 42"])
def test_malformed_process_is_reported_and_hides_no_other(add_rank, odd):
    add_rank(0, stat=odd)
    reading = add_rank(1).read()
    assert [process.rank for process in reading.value] == [1]
    (line,) = reading.dropped
    assert line.startswith("rank 0 of job: ")


def test_rank_that_just_ended_is_not_dropped_and_the_others_are_sorted(add_rank, tmp_path):
    for rank in (7, 0, 2, 5):
        source = add_rank(rank)
    shutil.rmtree(tmp_path / "1000")
    reading = source.read()
    assert [process.rank for process in reading.value] == [2, 5, 7]
    assert reading.dropped == ()


def test_storage_reads_of_a_job_do_not_fall_when_its_ranks_end_one_after_the_other(add_rank, tmp_path):
    for rank in range(3):
        source = add_rank(rank, io="read_bytes: 5\n")
    sums = []
    for number, left in enumerate((3, 3, 2, 1)):
        while len(add_rank.ranks) > left:
            del add_rank.ranks[min(add_rank.ranks)]
        for process in add_rank.ranks:
            (tmp_path / str(process.pid) / "io").write_text(f"read_bytes: {5 + 100 * number}\n")
        sums.append(sum(process.storage_read_bytes for process in source.read().value))
    assert sums == [0, 300, 500, 600]


def test_storage_reads_of_a_job_do_not_fall_if_those_of_its_first_rank_are_unknown(add_rank, tmp_path):
    add_rank(0)
    for rank in (1, 2):
        source = add_rank(rank, io="read_bytes: 5\n")
    source.read()
    for process in [*add_rank.ranks][1:]:
        (tmp_path / str(process.pid) / "io").write_text("read_bytes: 105\n")
    assert [process.storage_read_bytes for process in source.read().value] == [None, 100, 100]
    del add_rank.ranks[max(add_rank.ranks)]
    assert [process.storage_read_bytes for process in source.read().value] == [None, 100 + 100]


def test_ranks_above_the_limit_are_counted_in_a_single_line(tmp_path):
    assert ProcessSource(dict).read() == ((), ())
    ranks = {ProcessId(pid, 5000, 1000): ("job", pid) for pid in range(10_000)}
    assert ProcessSource(lambda: ranks, tmp_path).read() == (
        (),
        (f"{10_000 - MAX_PROCESSES} of 10000 ranks: at most 256 are read",),
    )


def test_process_that_shares_its_core_waits_and_one_that_sleeps_does_not():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    sleep = "input()"
    children = [
        subprocess.Popen([sys.executable, "-S", "-E", "-c", each], stdin=subprocess.PIPE)
        for each in (code, code, sleep)
    ]
    clock = iter(range(0, 10**6, 7))  # seconds
    source = ProcessSource(
        lambda: {process_id(child.pid): ("job", rank) for rank, child in enumerate(children)},
        clock=lambda: float(next(clock)),
    )

    def waits():
        first, second, sleeper = (process.run_delay_ratio or 0.0 for process in source.read().value)
        return first > 0 and second > 0 and sleeper < min(first, second)

    try:
        assert eventually(waits)
    finally:
        for child in children:
            child.kill()
            child.communicate()
