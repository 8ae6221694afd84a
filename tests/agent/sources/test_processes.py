"""Tests of the source that reads the processes of the ranks from /proc."""

import shutil

import pytest

from tests.boxes import eventually
from tests.processes import add_process
from zmon.agent.sources.processes import MAX_PROCESSES, WINDOW_SECONDS, ProcessSource
from zmon.process import ProcessId, process_id

SECOND = 10**9  # nanoseconds


class FakeProc:
    """A fake /proc with the ranks of a job, the source that reads them, and a clock. The pid of rank 0 is 1000."""

    def __init__(self, folder):
        self.folder = folder
        self.ranks = {}
        self.now = 0.0  # monotonic seconds
        self.source = ProcessSource(lambda: self.ranks, folder, lambda: self.now)

    def add(self, rank, **files):
        """Add a rank with these files."""
        self.ranks[add_process(self.folder, 1000 + rank, **files)] = ("job", rank)

    def set_storage_reads(self, process, num_bytes):
        (self.folder / str(process.pid) / "io").write_text(f"read_bytes: {num_bytes}\n")

    def delay_ratios(self, *samples):
        """Add rank 0; return its delay after each sample, which has the seconds since the last one, and a schedstat."""
        self.add(0)
        ratios = []
        for seconds, schedstat in samples:
            self.now += seconds
            (self.folder / "1000/schedstat").write_text(schedstat)
            ratios.append(self.source.read().value[0].run_delay_ratio)
        return ratios


@pytest.fixture
def proc(tmp_path):
    """Return a fake /proc without ranks."""
    return FakeProc(tmp_path)


def test_wait_for_a_processor_is_the_ratio_of_the_last_seconds(proc):
    samples = [(0, f"5 {SECOND} 1"), (2, f"5 {2 * SECOND} 2"), (4, f"5 {4 * SECOND} 3"), (2, f"5 {4 * SECOND} 3")]
    assert WINDOW_SECONDS == 6.0
    assert proc.delay_ratios(*samples) == [None, None, 0.5, pytest.approx(1 / 3)]


@pytest.mark.parametrize("schedstat", ["0 0 0", "", "5 7", "a b c", "5 -7 1"])
def test_wait_that_the_kernel_does_not_count_is_unknown_and_not_zero(proc, schedstat):
    assert proc.delay_ratios((9, schedstat), (9, schedstat), (9, schedstat)) == [None, None, None]


def test_wait_of_an_idle_process_is_zero_and_not_unknown(proc):
    assert proc.delay_ratios((9, "5 7 1"), (9, "5 7 1")) == [None, 0.0]


def test_missing_file_is_unknown_and_not_dropped(proc):
    proc.add(0)
    reading = proc.source.read()
    assert [process.run_delay_ratio for process in reading.value] == [None]
    assert reading.dropped == ()


@pytest.mark.parametrize("odd", ["", "garbage", "42 (python) S 1 42"])
def test_malformed_process_is_reported_and_hides_no_other(proc, odd):
    proc.add(0, stat=odd)
    proc.add(1)
    reading = proc.source.read()
    assert [process.rank for process in reading.value] == [1]
    (line,) = reading.dropped
    assert line.startswith("rank 0 of job: ")


def test_rank_that_just_ended_is_not_dropped_and_the_others_are_sorted(proc):
    for rank in (7, 0, 2, 5):
        proc.add(rank)
    shutil.rmtree(proc.folder / "1000")
    reading = proc.source.read()
    assert [process.rank for process in reading.value] == [2, 5, 7]
    assert reading.dropped == ()


def test_storage_reads_of_a_job_do_not_fall_when_its_ranks_end_one_after_the_other(proc):
    for rank in range(3):
        proc.add(rank, io="read_bytes: 5\n")
    sums = []
    for num_reads, num_ranks in enumerate((3, 3, 2, 1)):
        while len(proc.ranks) > num_ranks:
            del proc.ranks[min(proc.ranks)]
        for process in proc.ranks:
            proc.set_storage_reads(process, 5 + 100 * num_reads)
        sums.append(sum(process.storage_read_bytes for process in proc.source.read().value))
    assert sums == [0, 300, 500, 600]


def test_storage_reads_of_a_job_do_not_fall_if_those_of_its_first_rank_are_unknown(proc):
    proc.add(0)
    for rank in (1, 2):
        proc.add(rank, io="read_bytes: 5\n")
    proc.source.read()
    _, second, third = proc.ranks
    for process in (second, third):
        proc.set_storage_reads(process, 105)
    assert [process.storage_read_bytes for process in proc.source.read().value] == [None, 100, 100]
    del proc.ranks[third]
    assert [process.storage_read_bytes for process in proc.source.read().value] == [None, 100 + 100]


def test_ranks_above_the_limit_are_counted_in_a_single_line(tmp_path):
    assert ProcessSource(dict).read() == ((), ())
    ranks = {ProcessId(pid, 5000, 1000): ("job", pid) for pid in range(10_000)}
    assert ProcessSource(lambda: ranks, tmp_path).read() == (
        (),
        (f"{10_000 - MAX_PROCESSES} of 10000 ranks: at most {MAX_PROCESSES} are read",),
    )


def test_process_that_shares_its_core_waits_and_one_that_sleeps_does_not(start_python):
    spin = """if True:
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print("spins", flush=True)
        while True:
            pass
    """
    sleep = "import time; print(1, flush=True); time.sleep(60)"
    ranks = {process_id(start_python(code).pid): ("job", rank) for rank, code in enumerate((spin, spin, sleep))}
    clock = iter(range(0, 10**6, 7))  # seconds
    source = ProcessSource(lambda: ranks, clock=lambda: float(next(clock)))

    def waits():
        first, second, sleeper = (process.run_delay_ratio or 0.0 for process in source.read().value)
        return first > 0 and second > 0 and sleeper < min(first, second)

    assert eventually(waits)
