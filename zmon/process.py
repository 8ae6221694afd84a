"""What the kernel says about a process: its state, its start, and how it ended.

Sources: proc(5) for /proc/<pid>/stat; linux/pidfd.h for PIDFD_GET_INFO (exit information since Linux 6.15).
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("<QQ11Ii")  # mask, cgroup, pid … fsgid, exit code as wait(2) gives it


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """A line of /proc/<pid>/stat, the part that matters here; all threads together."""

    state: str  # R S D Z T t X, as in proc(5)
    parent: int
    start_ticks: int  # after boot: with the pid, the identity of a process
    resident_bytes: int
    num_threads: int
    cpu_seconds: float
    major_faults: int


def parse_stat(line: bytes) -> ProcessStat:
    """The line as the kernel writes it. Raises ValueError or IndexError where it is no such line."""
    after_name = line[line.rindex(b")") + 2 :].split()  # the name may hold anything; this begins with field 3
    ticks = int(after_name[11]) + int(after_name[12])
    return ProcessStat(
        state=after_name[0].decode("ascii"),
        parent=int(after_name[1]),
        start_ticks=int(after_name[19]),
        resident_bytes=int(after_name[21]) * _PAGE_BYTES,
        num_threads=int(after_name[17]),
        cpu_seconds=ticks / _TICKS_PER_SECOND,
        major_faults=int(after_name[9]),
    )


def process_stat(pid: int, proc: Path = Path("/proc")) -> ProcessStat | None:
    """The state of a process; None if it is gone or cannot be seen from here."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return None


class ExitWatch:
    """Holds on to a process so that its end can be read after it is gone (a pidfd is never reused)."""

    def __init__(self, pid: int) -> None:
        """Raises OSError where the process cannot be held: gone, or in another PID namespace."""
        self._fd = os.pidfd_open(pid)

    def close(self) -> None:
        """Let the process go."""
        os.close(self._fd)

    def ended(self) -> bool:
        """Whether the process has ended, reaped by its parent or not."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def exit_status(self) -> str | None:
        """`exit code 1` or `signal SIGKILL`; None while its parent has not reaped it or the kernel is older."""
        asked = _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13)
        try:
            answer = _PIDFD_INFO.unpack(fcntl.ioctl(self._fd, _PIDFD_GET_INFO, asked))
        except OSError:
            return None
        if not answer[0] & _PIDFD_INFO_EXIT:
            return None
        code = os.waitstatus_to_exitcode(answer[-1] & 0xFF7F)  # without the "core dumped" bit
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal has no name
            return f"signal {-code}"
