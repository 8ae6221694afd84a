"""Read the kernel log by syslog(2), where /dev/kmsg is missing or not allowed, as in most containers.

The call returns the whole ring buffer as text, `<priority>[   seconds] text` a line. It needs no device, and needs
CAP_SYSLOG only if kernel.dmesg_restrict is 1. It differs from /dev/kmsg in two ways:

- Lost records show as a gap: the last lines of the previous read are not in the buffer any more.
- A record with line breaks has its prefix on each line. The name of a process may have a line break. So of lines in a
  row with the same prefix, only the first and its exact repetitions are read as records. Another record of the same
  priority and microsecond is lost, because it looks like a further line of the first.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections import deque
from collections.abc import Callable
from itertools import groupby

READ_ALL, SIZE_BUFFER = 3, 10  # SYSLOG_ACTION_READ_ALL and SYSLOG_ACTION_SIZE_BUFFER of syslog(2)
_LINE = re.compile(r"<(\d+)>\[ *(\d+)\.(\d{6})\](?:\[[^\]]*\])? (.*)")  # the second bracket: printk.caller
_libc = ctypes.CDLL(None, use_errno=True)


def syslog(action: int, buffer: ctypes.Array[ctypes.c_char] | None, length: int) -> int:
    """Call syslog(2), which the C library calls klogctl. Raises OSError."""
    result = _libc.klogctl(action, buffer, length)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


class KernelRing:
    """The ring buffer of the kernel log. Records that it already has at the start are skipped."""

    def __init__(self, syslog_call: Callable[[int, ctypes.Array[ctypes.c_char] | None, int], int] = syslog) -> None:
        """Read to the end. Raises OSError if this process may not read the log, or its lines have no time."""
        self._syslog_call = syslog_call
        self._waiting: deque[bytes] = deque()
        lines = self._lines()
        if lines and not any(map(_LINE.match, lines)):
            raise OSError(0, "the kernel writes no times into its log (printk.time=0)")
        self._last_lines = _lines_of_last_time(lines)  # of the previous read: its place in the next one

    def next_record(self) -> bytes:
        """Return the next record in the format of /dev/kmsg.

        Raises BlockingIOError if there is none, and BrokenPipeError if records were lost.
        """
        if not self._waiting:
            lines = self._lines()
            new, is_gap = lines_after(self._last_lines, lines)
            self._last_lines = _lines_of_last_time(lines)
            self._waiting.extend(record for line in record_lines(new) if (record := kmsg_record(line)))
            if is_gap:  # the next calls return the records after it
                raise BrokenPipeError
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft()

    def _lines(self) -> list[str]:
        buffer = ctypes.create_string_buffer(self._syslog_call(SIZE_BUFFER, None, 0))
        length = self._syslog_call(READ_ALL, buffer, len(buffer))
        return [line for line in buffer.raw[:length].decode(errors="replace").split("\n") if line]


def lines_after(last: tuple[str, ...], lines: list[str]) -> tuple[list[str], bool]:
    """Return the lines after the last known lines, and True if lines between them may be lost."""
    if not last:
        return lines, False
    for end in range(len(lines), len(last) - 1, -1):  # from the end, because few lines are new
        if tuple(lines[end - len(last) : end]) == last:
            return lines[end:], False
    return lines, True


def record_lines(lines: list[str]) -> list[str]:
    """Return one line for each record: the first line with its prefix, and the repetitions of that line."""
    records: list[str] = []
    last_prefix = ""
    for line in lines:
        match = _LINE.match(line)
        prefix = line[: match.start(4)] if match else line
        if prefix != last_prefix or line == records[-1]:
            records.append(line)
        last_prefix = prefix
    return records


def kmsg_record(line: str) -> bytes | None:
    """Return a line as /dev/kmsg has it: `priority,sequence,microseconds,flags;text`. None if it has another format."""
    match = _LINE.match(line)
    if match is None:
        return None
    priority, seconds, micros, text = match.groups()
    return f"{priority},0,{int(seconds) * 1_000_000 + int(micros)},-;{text}\n".encode()


def _lines_of_last_time(lines: list[str]) -> tuple[str, ...]:
    """Return the last lines that have the same time. A line alone may be repeated; together they occur only once."""
    groups = [tuple(group) for _, group in groupby(lines, key=_time)]
    return groups[-1] if groups else ()


def _time(line: str) -> str | None:
    match = _LINE.match(line)
    return f"{match[2]}.{match[3]}" if match else None
