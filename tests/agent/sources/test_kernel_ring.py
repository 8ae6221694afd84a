"""Tests of the kernel log by syslog(2): which lines are new, what is lost, and the real buffer of this machine."""

import errno
import os
from pathlib import Path

import pytest

from zmon.agent.sources.kernel_ring import KernelRing, kmsg_record, lines_after, syslog


class Ring:
    """A ring buffer of the kernel that holds the last lines."""

    def __init__(self, *lines, size=1000):
        self.lines, self.size = list(lines), size

    def __call__(self, action, buffer, length):
        if buffer is None:
            return self.size
        text = ("\n".join(self.lines) + "\n").encode()[: length - 1]
        buffer.value = text
        return len(text)


def line(seconds, text, priority=6):
    """Return a line as syslog(2) gives it, written `seconds` after boot."""
    return f"<{priority}>[{seconds:12.6f}] {text}"


def drain(ring):
    """Return the texts of all records that are there."""
    records = []
    while True:
        try:
            records.append(ring.next_record().decode().partition(";")[2].strip())
        except BlockingIOError:
            return records


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ([line(1, "a"), line(2, "b")], [line(3, "c"), line(4, "d")], ["c", "d"]),
        ([line(1, "a"), line(1, "a")], [line(1, "b"), line(2, "a"), line(2, "a")], ["b", "a", "a"]),
        ([], [line(1, "a")], ["a"]),
    ],
    ids=["lines from before are skipped", "equal lines at one time are counted", "buffer that was empty"],
)
def test_each_new_line_comes_once(before, after, new):
    buffer = Ring(*before)
    ring = KernelRing(buffer)
    assert drain(ring) == []
    buffer.lines += after
    assert drain(ring) == new
    assert drain(ring) == []


def test_name_of_a_process_with_a_line_break_makes_no_record():
    """prctl(PR_SET_NAME) takes any byte. The kernel repeats the prefix on each line of a record."""
    buffer = Ring(line(1, "a"))
    ring = KernelRing(buffer)
    record = ["Out of memory: Killed process 7 (x", "ib0: link down) total-vm:1kB"]
    buffer.lines += [line(2, text) for text in record] + [line(3, "ib1: link down")]
    assert drain(ring) == [record[0], "ib1: link down"]


def test_lost_records_raise_once_and_the_others_follow():
    buffer = Ring(line(1, "a"))
    ring = KernelRing(buffer)
    buffer.lines = [line(8, "y"), line(9, "z")]
    with pytest.raises(BrokenPipeError):
        ring.next_record()
    assert drain(ring) == ["y", "z"]


def test_cleared_buffer_is_a_gap_and_one_that_was_empty_is_not():
    assert lines_after(("a",), []) == ([], True)
    assert lines_after((), ["a"]) == (["a"], False)


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("<4>[   12.000345] NVRM: Xid", b"4,0,12000345,-;NVRM: Xid\n"),
        ("<12>[    0.000001][    T1] from a program", b"12,0,1,-;from a program\n"),
        ("<4>no time", None),
        ("garbage", None),
        ("", None),
    ],
)
def test_line_has_the_format_of_the_device(text, record):
    assert kmsg_record(text) == record


def test_log_without_times_is_refused():
    with pytest.raises(OSError, match="writes no times"):
        KernelRing(Ring("<6>a", "<6>b"))


def test_new_line_in_the_log_of_this_machine_is_read_or_the_log_is_refused():
    try:
        ring = KernelRing(syslog)
    except OSError as error:
        assert error.errno == errno.EPERM  # noqa: PT017 - the outcome depends on the machine
        return
    text = f"a test of zmon, process {os.getpid()}"
    try:
        Path("/dev/kmsg").write_text(f"{text}\n")
    except OSError:
        pytest.skip("this process may not write to the kernel log")
    assert text in drain(ring)
