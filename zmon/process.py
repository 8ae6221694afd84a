"""Facts that the kernel reports about a process: its state, its start, and how it ended.

Sources: proc(5) for /proc/<pid>/stat; linux/pidfd.h for PIDFD_GET_INFO (exit information since Linux 6.15).
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("<QQ11Ii")  # mask, cgroup, pid … fsgid, exit status as in wait(2)


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that zmon uses; times are sums over all threads."""

    state: str  # R S D Z T t X, as in proc(5)
    parent: int
    start_ticks: int  # clock ticks after boot; pid and start together identify a process
    resident_bytes: int
    cpu_seconds: float


def parse_stat(line: bytes) -> ProcessStat:
    """Parse a line of /proc/<pid>/stat.

    Raises ValueError or IndexError if the line has another format.
    """
    end_of_name = line.rindex(b")")  # the name may contain any byte, even spaces
    after_name = line[end_of_name + 2 :].split()  # begins with field 3
    ticks = int(after_name[11]) + int(after_name[12])
    return ProcessStat(
        state=after_name[0].decode("ascii"),
        parent=int(after_name[1]),
        start_ticks=int(after_name[19]),
        resident_bytes=int(after_name[21]) * _PAGE_BYTES,
        cpu_seconds=ticks / _TICKS_PER_SECOND,
    )


def process_stat(pid: int, proc: Path = Path("/proc")) -> ProcessStat | None:
    """Return the state of a process, or None if it has ended or is not visible in this PID namespace."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return None


def children(pid: int, proc: Path = Path("/proc"), generations: int = 2) -> Iterator[int]:
    """Yield the children of a process, and theirs down to a generation: rank → fork server → loader worker.

    Nothing if it has just ended, or if the kernel lists no children (CONFIG_PROC_CHILDREN).
    """
    try:
        pids = [int(child) for child in (proc / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except (OSError, ValueError):
        return
    for child in pids:
        yield child
        if generations > 1:
            yield from children(child, proc, generations - 1)


class ExitWatch:
    """A pidfd of a process, which returns its exit status after it has ended.

    Unlike a pid, a pidfd never refers to another process later.
    """

    def __init__(self, pid: int) -> None:
        """Open the pidfd.

        Raises OSError if the process has ended or belongs to another PID namespace.
        """
        self._fd = os.pidfd_open(pid)

    def close(self) -> None:
        """Close the pidfd."""
        os.close(self._fd)

    def ended(self) -> bool:
        """Return True if the process has ended, whether or not its parent has reaped it."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(0))

    def exit_status(self) -> str | None:
        """Return the exit status, such as `exit code 1` or `signal SIGKILL`.

        Returns None until the parent has reaped the process, and always on kernels before 6.15.
        """
        request = _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13)
        try:
            answer = _PIDFD_INFO.unpack(fcntl.ioctl(self._fd, _PIDFD_GET_INFO, request))
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
