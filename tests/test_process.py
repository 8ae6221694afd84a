"""Tests of the facts that the kernel reports about a process: its state, its parent, and how it ended."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.boxes import eventually
from zmon.process import ExitWatch, children, exit_text, process_stat


@pytest.fixture
def child():
    """Yield a process that waits for a line of Python and runs it."""
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", "import os, signal, sys\nexec(sys.stdin.readline())"],
        stdin=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.wait()
    process.stdin.close()


def send_line(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()


def test_own_process_is_running_under_its_parent():
    stat = process_stat(os.getpid())
    assert stat.state == "R"
    assert stat.parent == os.getppid()
    assert stat.resident_bytes > 10_000_000
    age = float(Path("/proc/uptime").read_text().split()[0]) - stat.start_ticks / os.sysconf("SC_CLK_TCK")
    assert 0 < age < 3600


def test_children_include_those_that_another_thread_started():
    end = threading.Event()
    started = queue.SimpleQueue()

    def start_child():
        started.put(subprocess.Popen(["sleep", "60"]))
        end.wait()

    thread = threading.Thread(target=start_child)
    thread.start()
    child = started.get()
    try:
        assert child.pid in [pid for pid, *_ in children(os.getpid(), Path("/proc/self"))]
    finally:
        child.kill()
        child.wait()
        end.set()
        thread.join()


def test_stopped_process_is_in_state_t(child):
    child.send_signal(signal.SIGSTOP)
    assert eventually(lambda: process_stat(child.pid).state == "T")
    child.send_signal(signal.SIGCONT)
    assert eventually(lambda: process_stat(child.pid).state in "RS")


def test_stat_of_a_missing_process_is_none():
    assert process_stat(2**22 + 1) is None


@pytest.mark.parametrize("name", [b"\xff", b"a) R (b c"], ids=["not UTF-8", "spaces and parentheses"])
def test_stat_is_parsed_with_any_name_of_the_process(tmp_path, name):
    (tmp_path / "77").mkdir()
    (tmp_path / "77/stat").write_bytes(b"77 (%s) S 12 " % name + b"0 " * 17 + b"4242 0 3 " + b"0 " * 28)
    stat = process_stat(77, tmp_path)
    assert (stat.state, stat.parent, stat.start_ticks) == ("S", 12, 4242)
    assert stat.resident_bytes == 3 * os.sysconf("SC_PAGE_SIZE")


ENDINGS = {
    "os._exit(0)": "exit code 0",
    "os._exit(3)": "exit code 3",
    "os.kill(os.getpid(), signal.SIGKILL)": "signal SIGKILL",
    "os.kill(os.getpid(), signal.SIGSEGV)": "signal SIGSEGV",  # sets the "core dumped" bit if core dumps are enabled
    "os.kill(os.getpid(), 40)": "signal 40",
}


@pytest.mark.parametrize("line", ENDINGS)
def test_exit_status_is_known_after_the_parent_has_reaped_the_process(child, line):
    watch = ExitWatch(child.pid)
    assert not watch.ended()
    assert watch.exit_status() is None
    send_line(child, line)
    assert eventually(watch.ended)
    assert watch.exit_status() is None  # the process is still a zombie
    child.wait()
    if watch.exit_status() is None and tuple(map(int, os.uname().release.split(".")[:2])) < (6, 15):
        pytest.skip("this kernel does not report the exit status of a pidfd")
    assert watch.exit_status() == ENDINGS[line]
    watch.close()


def test_exit_watch_of_an_ended_process_is_an_error(child):
    child.kill()
    child.wait()
    with pytest.raises(OSError, match="No such process"):
        ExitWatch(child.pid)


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (1, "exit code 1"), (-signal.SIGKILL, "signal SIGKILL"), (-40, "signal 40")],  # 40: real-time
)
def test_return_code_is_a_text(code, text):
    assert exit_text(code) == text
