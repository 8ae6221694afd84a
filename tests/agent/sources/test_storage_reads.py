"""Tests of the bytes that ranks and their loader workers read from storage."""

import shutil
import subprocess
import sys

import pytest

from tests.boxes import eventually
from zmon.agent.sources.storage_reads import StorageReads

RANK, WORKER, SERVER = 100, 200, 300


@pytest.fixture
def proc(tmp_path):
    """Return a function that sets the bytes and the children of a process; None for bytes that may not be read."""

    def add(pid, read_bytes, *children):
        folder = tmp_path / str(pid)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "task" / str(pid) / "children").write_text(" ".join(map(str, children)) + " ")
        if read_bytes is not None:
            (folder / "io").write_text(f"rchar: 9\nwchar: 9\nread_bytes: {read_bytes}\nwrite_bytes: 7\n")

    add.path = tmp_path
    return add


@pytest.mark.parametrize(
    ("processes", "reads"),
    [
        ([(RANK, 5, WORKER, SERVER), (WORKER, 100), (SERVER, 20, 301), (301, 3000)], 3125),
        ([(RANK, None, WORKER), (WORKER, 100)], None),
    ],
    ids=["with its workers and those of its fork server", "unknown if its own may not be read"],
)
def test_reads_of_a_rank(proc, processes, reads):
    for process in processes:
        proc(*process)
    assert StorageReads(proc.path).of(RANK) == reads


def test_reads_do_not_fall_when_a_worker_ends_and_another_gets_its_number(proc):
    reads = StorageReads(proc.path)
    proc(RANK, 5, WORKER)
    proc(WORKER, 100)
    assert reads.of(RANK) == 105
    proc(RANK, 6)
    assert reads.of(RANK) == 106
    proc(RANK, 6, WORKER)
    proc(WORKER, 30)
    assert reads.of(RANK) == 136
    proc(WORKER, 40)
    assert reads.of(RANK) == 146


def test_kernel_without_lists_of_children_gives_the_reads_of_the_rank_itself(proc):
    proc(RANK, 5)
    (proc.path / str(RANK) / "task" / str(RANK) / "children").unlink()
    assert StorageReads(proc.path).of(RANK) == 5


def test_rank_that_is_gone_is_forgotten(proc):
    reads = StorageReads(proc.path)
    proc(RANK, 5, WORKER)
    proc(WORKER, 100)
    reads.of(RANK)
    reads.retain(set())
    proc(RANK, 7)
    assert reads.of(RANK) == 7


def test_real_process_and_its_child_are_read():
    child = "import sys; print('up', flush=True); sys.stdin.read()"  # until the test closes its input
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "up\n"
        reads = StorageReads()
        assert eventually(lambda: reads.of(process.pid) is not None)
        assert len(reads._ranks[process.pid].living) == 2
    finally:
        process.communicate()
