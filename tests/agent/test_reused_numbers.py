"""Tests of process numbers that are used again.

A user may end a rank and start processes until one of somebody else has its number: nothing is read of that process.
"""

import asyncio
import os

import pytest

from tests.processes import UID, add_process, end_process
from zmon.agent import evidence, stacks
from zmon.agent.process_work import process_work
from zmon.agent.sources import stderr
from zmon.agent.sources.cgroups import CgroupSource
from zmon.agent.sources.processes import ProcessSource
from zmon.agent.sources.stderr import StderrSource
from zmon.agent.sources.tcp import TcpSource
from zmon.agent.worker_socket import WorkerSocket
from zmon.process import ProcessId, children

PID = 700


def add(proc, start_ticks, text):
    """Add a process that has written a text to its stderr and has a socket and a control group; return it."""
    process = add_process(
        proc, PID, start_ticks, wchan="futex_wait_queue", cgroup="0::/job\n",
        io="rchar: 1\nwchar: 1\nread_bytes: 1\nwrite_bytes: 1\n",
    )  # fmt: skip
    folder = proc / str(PID)
    for name in ("fd", "fdinfo", "ns", f"task/{PID}"):
        (folder / name).mkdir(parents=True)
    (proc / f"stderr-of-{start_ticks}").write_text(text)
    (folder / "fd/2").symlink_to(proc / f"stderr-of-{start_ticks}")
    (folder / "fd/3").symlink_to("socket:[11]")
    (folder / "fdinfo/2").write_text("flags:\t0100001\n")
    with (folder / "status").open("a") as status:
        status.write(f"Gid:\t{os.getgid()}\nGroups:\t\n")
    (folder / "ns/net").symlink_to("net:[1]")
    (folder / f"task/{PID}/wchan").write_text("futex_wait_queue")
    return process


@pytest.fixture
def proc(tmp_path):
    """Return a fake /proc whose ranks are in the network namespace of the agent."""
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/net").symlink_to("net:[1]")
    return tmp_path


@pytest.fixture(autouse=True)
def writable_stderr(monkeypatch):
    """Let every process write its stderr, whoever runs these tests."""
    monkeypatch.setattr(stderr, "_may_write", lambda process, file: True)


def replace(proc):
    """End the rank; another process gets its number."""
    end_process(proc, PID)
    add(proc, 6000, "of somebody else")


READERS = {
    "stderr": lambda rank, proc: tail(StderrSource(lambda: {"run": rank}, proc)),
    "processes": lambda rank, proc: ProcessSource(lambda: {rank: ("job", 0)}, proc).read().value,
    "control groups": lambda rank, proc: CgroupSource(lambda: {rank: ("job", 0)}, proc, proc).read().value,
    "connections": lambda rank, proc: owned_sockets(TcpSource(lambda: {rank: ("job", 0)}, proc)),
    "work": lambda rank, proc: process_work(rank, (PID,), proc),
    "wait channel": lambda rank, proc: evidence_of(rank, proc).wchan,
}


def tail(source):
    """Read the source once, and return the end of the stderr of the rank."""
    source.read()
    return source.tail("run").text


def owned_sockets(source):
    """Return the rank that owns each socket, by the inode of the socket."""
    source._search(source._ranks())
    return source._owners


def evidence_of(rank, proc):
    """Return the evidence of a rank without stacks."""
    socket = WorkerSocket(proc / "none", os.geteuid(), "")
    return asyncio.run(evidence.gather(rank, socket, proc, stacks=False, py_spy=None))


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_read_of_a_process_that_has_the_number_of_a_rank(proc, name):
    rank = add(proc, 5000, "of the rank")
    assert READERS[name](rank, proc)
    replace(proc)
    assert not READERS[name](rank, proc)


@pytest.mark.parametrize("name", READERS)
def test_nothing_is_read_of_a_process_that_has_become_another_users(proc, name):
    rank = add(proc, 5000, "of the rank")
    assert not READERS[name](rank._replace(uid=UID + 1), proc)


def test_stderr_is_given_up_if_the_rank_ends_while_it_is_opened(proc, monkeypatch):
    """The folder of the rank was opened before its end; what it leads to afterwards is not trusted."""
    rank = add(proc, 5000, "of the rank")
    source = StderrSource(lambda: {"run": rank}, proc)

    def replace_first(folder):
        fd = os.open(proc / "stderr-of-5000", os.O_RDONLY)
        replace(proc)
        return fd

    monkeypatch.setattr(stderr, "_open_for_reading", replace_first)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    assert tail(source) is None
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_stacks_are_given_up_if_the_rank_ends_while_py_spy_reads_them(proc, tmp_path):
    """py-spy takes a number, so it may have read another process."""
    rank = add(proc, 5000, "of the rank")
    script = tmp_path / "py-spy"
    script.write_text(
        f"#!/bin/sh\nmv {proc}/{PID} {proc}/gone; rm -r {proc}/gone\n"
        "printf 'Process 7: python\\nPython v3.11.7 (/p)\\n\\nThread 7 secret'\n"
    )
    script.chmod(0o755)
    stack, reason = asyncio.run(stacks.read_stacks(rank, str(script), proc))
    assert (stack, reason) == (None, "its process has ended")


def test_process_with_the_number_of_a_child_is_no_child(proc):
    add(proc, 5000, "of the rank")
    (proc / str(PID) / f"task/{PID}/children").write_text("701 702 ")
    add_process(proc, 701, parent=PID)
    add_process(proc, 702, parent=1)
    with ProcessId(PID, 5000, UID).opened(proc) as folder:
        assert [pid for pid, *_ in children(PID, folder, proc)] == [701]
