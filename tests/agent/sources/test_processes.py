"""Tests of the source that reads the processes of the ranks from /proc."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.boxes import eventually
from zmon.agent.sources.processes import MAX_PROCESSES, ProcessSource

PAGE_BYTES, TICKS_PER_SECOND = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
STATUS = "Name:\tpython\nThreads:\t9\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n"


def stat_line(name="python", state="S", rss=25):
    return (
        f"42 ({name}) {state} 1 42 42 0 -1 4194560 900 8 17 2 300 200 1 1 20 0 9 0 5000 99 {rss} 18446744073709551615\n"
    )


@pytest.fixture
def add_rank(tmp_path):
    """Add a rank to a fake /proc; a file whose content is None cannot be read."""
    ranks = {}

    def make(rank, **files):
        pid = 1000 + rank
        ranks[pid] = ("job", rank)
        (tmp_path / str(pid)).mkdir()
        for name, content in ({"stat": stat_line(), "status": STATUS, "wchan": "futex_wait_queue"} | files).items():
            path = tmp_path / str(pid) / name
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content.encode("latin-1"))
        return ProcessSource(lambda: ranks, tmp_path)

    make.ranks = ranks
    return make


def test_sample_has_all_values_of_the_process(add_rank):
    (process,) = add_rank(3).read().value
    assert (process.job_id, process.rank, process.pid, process.state) == ("job", 3, 1003, "S")
    assert process.resident_bytes == 25 * PAGE_BYTES
    assert process.num_threads == 9
    assert process.cpu_seconds == 500 / TICKS_PER_SECOND
    assert (process.voluntary_switches, process.involuntary_switches, process.major_faults) == (150, 545, 17)
    assert process.wait_channel == "futex_wait_queue"


@pytest.mark.parametrize("name", ["a b", "x) R 1 (y", "\xff\xfe", ""])
def test_any_process_name_is_parsed(add_rank, name):
    (process,) = add_rank(0, stat=stat_line(name, state="D")).read().value
    assert (process.state, process.num_threads) == ("D", 9)


@pytest.mark.parametrize("wchan", ["0", "", None], ids=["running", "empty", "denied"])
def test_missing_wait_channel_is_unknown_but_not_dropped(add_rank, wchan):
    reading = add_rank(0, wchan=wchan).read()
    assert reading.value[0].wait_channel is None
    assert reading.dropped == ()


@pytest.mark.parametrize(
    ("status", "switches"),
    [
        (None, (None, None)),
        ("Name:\tpython\n", (None, None)),
        ("voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n", (0, 0)),
    ],
)
def test_missing_switches_are_unknown_and_those_of_an_idle_process_are_zero(add_rank, status, switches):
    (process,) = add_rank(0, status=status).read().value
    assert (process.voluntary_switches, process.involuntary_switches) == switches


def test_rank_that_just_ended_is_not_dropped_and_the_others_are_sorted(add_rank, tmp_path):
    for rank in (7, 0, 2, 5):
        source = add_rank(rank)
    shutil.rmtree(tmp_path / "1000")
    reading = source.read()
    assert [process.rank for process in reading.value] == [2, 5, 7]
    assert reading.dropped == ()


def test_rank_that_ends_during_the_read_is_not_dropped(add_rank, monkeypatch):
    """The kernel returns ESRCH for a file that was opened before its process ended."""
    source = add_rank(0)

    def gone(path):
        raise ProcessLookupError(errno.ESRCH, "No such process")

    monkeypatch.setattr(Path, "read_bytes", gone)
    assert source.read() == ((), ())


@pytest.mark.parametrize("odd", [None, "", "garbage", "42 (python) S 1 42", stat_line(rss="many")])
def test_malformed_process_is_reported_and_hides_no_other(add_rank, odd):
    add_rank(0, stat=odd)
    reading = add_rank(1).read()
    assert [process.rank for process in reading.value] == [1]
    assert len(reading.dropped) == 1
    assert reading.dropped[0].startswith("rank 0 of job: ")


def test_storage_reads_of_a_job_do_not_fall_when_its_ranks_end_one_after_the_other(add_rank, tmp_path):
    for rank in range(3):
        source = add_rank(rank, io="read_bytes: 5\n")
    sums = []
    for number, left in enumerate((3, 3, 2, 1)):
        while len(add_rank.ranks) > left:
            del add_rank.ranks[min(add_rank.ranks)]
        for pid in add_rank.ranks:
            (tmp_path / str(pid) / "io").write_text(f"read_bytes: {5 + 100 * number}\n")
        sums.append(sum(process.storage_read_bytes for process in source.read().value))
    assert sums == [0, 300, 500, 600]


def test_ranks_above_the_limit_are_counted_in_a_single_line(tmp_path):
    assert ProcessSource(dict).read() == ((), ())
    ranks = {pid: ("job", pid) for pid in range(10_000)}
    assert ProcessSource(lambda: ranks, tmp_path).read() == (
        (),
        (f"{10_000 - MAX_PROCESSES} of 10000 ranks: at most 256 are read",),
    )


def test_sleeping_child_process_is_read():
    child = subprocess.Popen([sys.executable, "-S", "-E", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        source = ProcessSource(lambda: {child.pid: ("job", 0), os.getpid(): ("job", 1)})
        eventually(lambda: source.read().value[0].state == "S")
        sleeper, this = source.read().value
        assert sleeper.resident_bytes > 1_000_000
        assert sleeper.voluntary_switches >= 1
        assert (this.state, this.wait_channel) == ("R", None)
        assert this.cpu_seconds > 0
    finally:
        child.communicate(b"\n")
