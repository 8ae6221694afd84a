"""Facts that the kernel reports about a process: its state, its start, and how it ended.

Once a process has ended and its parent has reaped it, the kernel may give its pid to another process. A program that
reads about a process other than its children therefore names it by a `ProcessId`, and reads in its folder of /proc,
which it opens once.

Sources: proc(5) for /proc/<pid>/stat; linux/pidfd.h for PIDFD_GET_INFO (exit information since Linux 6.15).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PF_EXITING = 0x4  # linux/sched.h
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_INFO = struct.Struct("<QQ11Ii")  # mask, cgroup, eleven numbers from pid to fsgid, exit status as in wait(2)
_CORE_DUMPED = 0x80  # a bit of that exit status


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """The fields of /proc/<pid>/stat that zmon uses; times are sums over all threads."""

    state: str  # R S D Z T t X, as in proc(5)
    parent: int
    start_ticks: int  # clock ticks after boot; pid and start together identify a process
    resident_bytes: int
    cpu_seconds: float
    session: int  # the process that leads its session
    terminal: int  # the number of its terminal's device; 0: it has no terminal
    is_exiting: bool  # the kernel has begun to end it, so that it lets go of its files


def parse_stat(line: bytes) -> ProcessStat:
    """Parse a line of /proc/<pid>/stat. Raises ValueError or IndexError if it has another format."""
    end_of_name = line.rindex(b")")  # the name may contain any byte, even spaces
    after_name = line[end_of_name + 2 :].split()  # begins with field 3
    ticks = int(after_name[11]) + int(after_name[12])
    return ProcessStat(
        state=after_name[0].decode("ascii"),
        parent=int(after_name[1]),
        start_ticks=int(after_name[19]),
        resident_bytes=int(after_name[21]) * _PAGE_BYTES,
        cpu_seconds=ticks / _TICKS_PER_SECOND,
        session=int(after_name[3]),
        terminal=int(after_name[4]),
        is_exiting=bool(int(after_name[6]) & _PF_EXITING),
    )


def process_stat(pid: int, proc: Path = Path("/proc")) -> ProcessStat | None:
    """Return the state of a process, or None if it has ended or is not visible in this PID namespace."""
    return stat_in(proc / str(pid))


def stat_in(folder: Path) -> ProcessStat | None:
    """Return the state of the process with this folder, or None if it has ended."""
    try:
        return parse_stat((folder / "stat").read_bytes())
    except (OSError, ValueError, IndexError):
        return None


class ProcessKey(NamedTuple):
    """A process of this host, told by its start from a later one with the same number."""

    pid: int
    start_ticks: int  # clock ticks after boot


class ProcessId(NamedTuple):
    """A process: its pid, and what tells it from a later process with the same pid."""

    pid: int
    start_ticks: int  # clock ticks after boot
    uid: int  # the real one, which a setuid program does not change

    @property
    def key(self) -> ProcessKey:
        """The process without its user."""
        return ProcessKey(self.pid, self.start_ticks)

    @contextlib.contextmanager
    def opened(self, proc: Path = Path("/proc")) -> Iterator[Path]:
        """Yield the folder of the process. What is read there is of this process, or fails once it has ended.

        Raises ProcessLookupError if it has ended by the beginning or by the end of the block, and PermissionError if it
        runs as another user.
        """
        with _folder(self.pid, proc) as folder:
            self._check(folder)
            yield folder
            self._check(folder)

    def _check(self, folder: Path) -> None:
        try:
            now = _identity(self.pid, folder)
        except (FileNotFoundError, ProcessLookupError):
            now = None
        if now is None or now.start_ticks != self.start_ticks:
            raise ProcessLookupError(errno.ESRCH, "its process has ended")
        if now.uid != self.uid:
            raise PermissionError(errno.EPERM, "its process runs as another user than before")


def process_id(pid: int, proc: Path = Path("/proc")) -> ProcessId | None:
    """Return the process that has this pid now, or None if there is none or it is hidden."""
    try:
        with _folder(pid, proc) as folder:
            return _identity(pid, folder)
    except OSError:
        return None


def children(
    pid: int, folder: Path, proc: Path = Path("/proc"), generations: int = 2
) -> Iterator[tuple[int, Path, ProcessStat]]:
    """Yield the children of a process, and theirs down to a generation: rank → fork server → loader worker.

    Each comes with its folder, which is open until the next one is taken, and its state. Nothing if the process has
    just ended, or if the kernel lists no children (CONFIG_PROC_CHILDREN).
    """
    for child in listed_children(folder):
        with contextlib.suppress(OSError), _folder(child, proc) as child_folder:
            stat = stat_in(child_folder)
            if stat is None or stat.parent != pid:  # it has ended, and its pid may be another process's
                continue
            yield child, child_folder, stat
            if generations > 1:
                yield from children(child, child_folder, proc, generations - 1)


def listed_children(folder: Path) -> Iterator[int]:
    """Yield the children that each thread of a process has started.

    A rank may have hundreds of threads, and a Path for each of them would take three times as long.
    """
    with contextlib.suppress(OSError), os.scandir(folder / "task") as threads:  # the process may have just ended
        for thread in threads:
            with contextlib.suppress(OSError, ValueError):  # the thread has ended, or the kernel lists no children
                with open(f"{thread.path}/children", "rb", buffering=0) as file:  # noqa: PTH123
                    pids = file.read()
                yield from map(int, pids.split())


@contextlib.contextmanager
def _folder(pid: int, proc: Path) -> Iterator[Path]:
    """Open the folder of a process, and yield a path that leads to it as long as it is open (proc_pid_fd(5))."""
    try:
        fd = os.open(proc / str(pid), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "its process has ended") from None
    try:
        yield Path(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _identity(pid: int, folder: Path) -> ProcessId:
    """Return the process with this folder. Raises OSError."""
    line = (folder / "stat").read_bytes()
    uid = re.search(r"^Uid:\s*(\d+)", (folder / "status").read_text(errors="replace"), re.M)
    try:
        return ProcessId(pid, parse_stat(line).start_ticks, int(uid[1] if uid else ""))
    except (ValueError, IndexError):
        raise OSError(errno.EPROTO, "its stat or status does not have the format of proc(5)") from None


class ExitWatch:
    """A pidfd of a process: it takes signals, has the exit status, and unlike a pid never means a later process."""

    def __init__(self, pid: int) -> None:
        """Open the pidfd. Raises OSError if the process has ended or belongs to another PID namespace."""
        self._fd = os.pidfd_open(pid)

    def close(self) -> None:
        os.close(self._fd)

    def ended(self, seconds: float = 0.0) -> bool:
        """Return True if the process ends within this time, whether or not its parent has reaped it."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def send(self, number: int) -> None:
        """Send a signal to this very process; 0 only checks that it may be sent (pidfd_send_signal(2)).

        Raises ProcessLookupError if it has ended and was reaped, and PermissionError.
        """
        signal.pidfd_send_signal(self._fd, number)

    def exit_status(self) -> str | None:
        """Return the exit status as `how_it_ended` does; None until the parent has reaped it, and before Linux 6.15."""
        request = _PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13)
        try:
            mask, *_, status = _PIDFD_INFO.unpack(fcntl.ioctl(self._fd, _PIDFD_GET_INFO, request))
        except OSError:
            return None
        return how_it_ended(status & ~_CORE_DUMPED) if mask & _PIDFD_INFO_EXIT else None


def how_it_ended(status: int) -> str:
    """Return `exit code 1`, `signal SIGKILL` or the like, given the wait status of a process (waitpid(2))."""
    return exit_text(os.waitstatus_to_exitcode(status))


def exit_text(code: int) -> str:
    """Return `exit code 1` and the like, given a return code of the module `subprocess`: negative for a signal."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"
