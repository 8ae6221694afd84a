"""Tests of the bytes that ranks and their loader workers read from storage."""

import shutil
import subprocess

import pytest

from tests.boxes import eventually
from tests.build import JOB
from tests.processes import UID, add_process
from zmon.agent.sources.storage_reads import StorageReads
from zmon.process import ProcessId, process_id

RANK, WORKER, SERVER = 100, 200, 300


class FakeProc:
    """A fake /proc with a rank, its loader workers and a fork server."""

    def __init__(self, path):
        self.path = path

    def set(self, pid, read_bytes, *children):
        """Set the bytes and the children of a process; None for bytes that may not be read.

        The parent of the processes above number 300 is the fork server; that of all others is the rank.
        """
        folder = self.path / str(pid)
        shutil.rmtree(folder, ignore_errors=True)
        add_process(self.path, pid, parent=SERVER if pid > SERVER else RANK)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "task" / str(pid) / "children").write_text(" ".join(map(str, children)) + " ")
        if read_bytes is not None:
            (folder / "io").write_text(f"rchar: 9\nwchar: 9\nread_bytes: {read_bytes}\nwrite_bytes: 7\n")


@pytest.fixture
def proc(tmp_path):
    """Return a fake /proc without processes."""
    return FakeProc(tmp_path)


def read(reads, proc):
    """Return the bytes that the rank has read from storage, given the folder of a fake /proc."""
    rank = ProcessId(RANK, 5000, UID)
    with rank.opened(proc) as folder:
        return reads.bytes_of(rank, JOB, folder)


def test_reads_of_a_rank_include_its_workers_and_those_of_its_fork_server(proc):
    reads = StorageReads(proc.path)
    proc.set(RANK, 5)
    assert read(reads, proc.path) == 0
    proc.set(RANK, 5, WORKER, SERVER)
    proc.set(WORKER, 100)
    proc.set(SERVER, 20, 301)
    proc.set(301, 3000)
    assert read(reads, proc.path) == 3120


def test_reads_do_not_fall_when_a_worker_ends_and_another_gets_its_number(proc):
    reads = StorageReads(proc.path)
    proc.set(RANK, 5)
    assert read(reads, proc.path) == 0
    proc.set(RANK, 5, WORKER)
    proc.set(WORKER, 100)
    assert read(reads, proc.path) == 100
    proc.set(RANK, 6)
    assert read(reads, proc.path) == 101
    proc.set(RANK, 6, WORKER)
    proc.set(WORKER, 30)
    assert read(reads, proc.path) == 131
    proc.set(WORKER, 40)
    assert read(reads, proc.path) == 141


def test_next_agent_begins_at_0_because_it_does_not_know_what_ended_workers_had_read(proc):
    reads = StorageReads(proc.path)
    proc.set(RANK, 5, WORKER)
    proc.set(WORKER, 100)
    read(reads, proc.path)
    proc.set(RANK, 50)
    assert read(reads, proc.path) == 45
    assert read(StorageReads(proc.path), proc.path) == 0


def test_reads_are_unknown_if_those_of_the_rank_may_not_be_read(proc):
    proc.set(RANK, None, WORKER)
    proc.set(WORKER, 100)
    assert read(StorageReads(proc.path), proc.path) is None


def test_kernel_without_lists_of_children_gives_the_reads_of_the_rank_itself(proc):
    reads = StorageReads(proc.path)
    for num_bytes in (5, 8):
        proc.set(RANK, num_bytes)
        (proc.path / str(RANK) / "task" / str(RANK) / "children").unlink()
        assert read(reads, proc.path) == num_bytes - 5


def test_reads_of_a_rank_that_is_gone_stay_with_its_job_until_no_rank_of_it_is_left(proc):
    reads = StorageReads(proc.path)
    for num_bytes in (5, 30):
        proc.set(RANK, num_bytes)
        read(reads, proc.path)
    reads.retain({ProcessId(WORKER, 5000, UID): JOB})
    assert reads.bytes_of_ended_ranks(JOB) == 25
    assert read(reads, proc.path) == 0
    reads.retain({})
    assert reads.bytes_of_ended_ranks(JOB) == 0


def test_real_process_and_its_child_are_read(start_python):
    child = "import sys; print('up', flush=True); sys.stdin.read()"  # until the test closes its input
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    rank = process_id(start_python(parent, stdin=subprocess.PIPE).pid)
    reads = StorageReads()
    with rank.opened() as folder:
        assert eventually(lambda: reads.bytes_of(rank, JOB, folder) is not None)
    assert len(reads._ranks[rank].living) == 2
