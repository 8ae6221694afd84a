"""Tests of what an agent reads about a process that makes no progress, from real processes."""

import os
import socket
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from tests.boxes import eventually
from tests.processes import add_process
from zmon.agent.process_work import process_work, wait_channel
from zmon.agent.sources.sock_diag import Connection, Dump
from zmon.process import process_id

PR_SET_NAME = 15  # linux/prctl.h
WRITER = """
import os, subprocess, sys, time
while time.process_time() < 0.1:  # the kernel counts in ticks
    pass
out = open(sys.argv[1], "wb", buffering=0)
out.write(bytes(3 << 20))
child = subprocess.Popen([sys.executable, "-c", "import time; open('/dev/zero', 'rb').read(2 << 20); time.sleep(60)"])
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("content", "expected"), [("futex_wait_queue", "futex_wait_queue"), ("0", None), ("", None)])
def test_wait_channel_is_none_for_a_thread_that_runs(tmp_path, content, expected):
    (tmp_path / "wchan").write_text(content)
    assert wait_channel(tmp_path) == expected
    assert wait_channel(tmp_path / "gone") is None


def test_file_system_is_that_of_the_file_that_the_main_thread_reads(start_python, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    process = start_python(
        "import os, sys; f = os.open(sys.argv[1], os.O_RDWR); print(1, flush=True); os.read(f, 1)",
        str(tmp_path / "fifo"),
    )
    parts = [part for part in psutil.disk_partitions(all=True) if tmp_path.is_relative_to(part.mountpoint)]
    known = max(parts, key=lambda part: len(part.mountpoint)).fstype
    assert eventually(lambda: process_work(process_id(process.pid), ()).file_system == known)
    process = start_python("import time; print(1, flush=True); time.sleep(60)")
    assert process_work(process_id(process.pid), ()).file_system is None


def test_work_of_a_process_includes_its_children(start_python, tmp_path):
    process = start_python(WRITER, str(tmp_path / "rank.pt"))

    def read():
        work = process_work(process_id(process.pid), (process.pid,))
        return work if (work.read_bytes or 0) > 2 << 20 and "" not in work.waits else None

    work = eventually(read)
    assert work.written_bytes >= 3 << 20
    assert len(work.processes) == 2
    assert work.waits == ("hrtimer_nanosleep", "hrtimer_nanosleep")
    assert work.file == str(tmp_path / "rank.pt")
    assert work.network_bytes == 0
    assert work.switches > 0
    assert work.cpu_seconds > 0


def test_file_is_the_one_that_was_written_last(start_python, tmp_path, monkeypatch):
    """stat(2) would ask the server of a file, and wait for it if that server is why the rank stands still."""
    process = start_python(
        "import sys, time; files = [open(name, 'wb', buffering=0) for name in sys.argv[1:]]\n"
        "for file in files: time.sleep(0.05); file.write(b'x')\n"
        "print(1, flush=True); time.sleep(60)",
        *(str(tmp_path / name) for name in "bca"),
    )
    monkeypatch.setattr(Path, "stat", lambda self: pytest.fail(f"{self} was asked for its status"))
    assert process_work(process_id(process.pid), ()).file == str(tmp_path / "a")


def test_name_that_is_not_utf_8_hides_no_work(start_python):
    """The kernel cuts the name of a script after 15 bytes, which may be in the middle of a letter."""
    process = start_python(
        f"import ctypes, time; ctypes.CDLL(None).prctl({PR_SET_NAME}, b'\\xff'); print(1, flush=True); time.sleep(60)"
    )
    assert process_work(process_id(process.pid), ()).switches > 0


NESTED = """
import os, subprocess, sys
if int(sys.argv[1]):
    print("ready", flush=True)
    subprocess.run([sys.executable, os.environ["NESTED"], str(int(sys.argv[1]) - 1)])
while True:
    pass
"""


def test_compiler_that_a_build_started_counts(start_python, tmp_path, monkeypatch):
    """All processes above it only wait for their children."""
    (tmp_path / "nested.py").write_text(NESTED)
    monkeypatch.setenv("NESTED", str(tmp_path / "nested.py"))
    process = start_python(NESTED, "4")

    def deepest():
        work = process_work(process_id(process.pid), (process.pid,))
        return work if len(work.processes) == 5 and "" in work.waits else None

    before = eventually(deepest)
    assert eventually(lambda: process_work(process_id(process.pid), ()).cpu_seconds > before.cpu_seconds + 0.1)


def test_connections_of_an_old_kernel_move_unknown_bytes():
    connection = Connection(1, "10.0.0.1", "10.0.0.2", 0, 0, 0, None, None)
    with socket.create_server(("127.0.0.1", 0)):
        work = process_work(process_id(os.getpid()), (), dump=lambda inodes: Dump([connection], set()))
    assert work.network_bytes is None


def test_lock_is_a_wait_of_its_thread(start_python):
    process = start_python(
        "import threading\nlock = threading.Lock()\nlock.acquire()\nprint(1, flush=True)\nlock.acquire()"
    )
    waits = eventually(lambda: [w for w in process_work(process_id(process.pid), (process.pid,)).waits if w])
    assert waits[0].startswith("futex_")


def test_bytes_of_tcp_count_in_both_directions():
    """This process sends to itself; the kernel counts the bytes once they are acknowledged."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        before = process_work(process_id(os.getpid()), ()).network_bytes
        receiver = threading.Thread(target=lambda: theirs.recv(1 << 20, socket.MSG_WAITALL))
        receiver.start()
        ours.sendall(bytes(1 << 20))
        receiver.join()
        theirs.close()
        assert eventually(lambda: process_work(process_id(os.getpid()), ()).network_bytes - before >= 1 << 20)


def test_process_that_has_ended_has_no_work(start_python):
    process = start_python("print(1, flush=True); input()", stdin=subprocess.PIPE)
    identity = process_id(process.pid)
    process.communicate()
    assert process_work(identity, ()) is None


def test_what_may_not_be_read_is_unknown(tmp_path):
    """The /proc of a process of another user, as an agent without privileges sees it."""
    folder = tmp_path / "7"
    (folder / "task" / "7").mkdir(parents=True)
    (folder / "task" / "7" / "children").write_text("")
    (folder / "task" / "7" / "wchan").write_text("0")
    work = process_work(add_process(tmp_path, 7), (7,), tmp_path)
    assert (work.read_bytes, work.written_bytes, work.network_bytes, work.switches) == (None, None, None, None)
    assert (work.waits, work.file, work.cpu_seconds) == (("",), None, 3.4)
