"""Read what the process of a rank and its children have done so far, and what their threads wait for.

Two such samples distinguish a pause with work from a hang (zmon/job/standing.py). Sources: proc(5) for `stat`, `io`,
`status` and `fdinfo` of a process and `wchan` of a thread; the kernel's socket monitor for TCP. RDMA and UDP are not
counted. The agent reads all this only for ranks that make no progress.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
from collections.abc import Callable, Collection, Container
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from zmon.agent.redaction import redacted
from zmon.agent.sources import sock_diag
from zmon.agent.sources.reading import text_of
from zmon.agent.sources.sock_diag import Dump
from zmon.agent.sources.sysfs import names_in
from zmon.agent.sources.tcp import socket_inodes
from zmon.format import plain
from zmon.process import ProcessId, ProcessStat, children, stat_in
from zmon.schema.standing import ProcessWork

_MAX_PROCESSES = 256  # processes of one rank; if it has more, its bytes are unknown
_GENERATIONS = 16  # a build has six: rank → ninja → shell → compiler driver → compiler, and a launcher before
_MAX_FILES = 1024  # open files of the rank that are looked at
_WRITABLE = os.O_WRONLY | os.O_RDWR
_libc = ctypes.CDLL(None, use_errno=True)  # Python has no statx(2)
_AT_FDCWD, _AT_STATX_DONT_SYNC, _STATX_MTIME = -100, 0x4000, 0x40  # linux/fcntl.h, linux/stat.h
_STATX_BYTES, _MTIME_OFFSET = 256, 112  # of struct statx (linux/stat.h), and of stx_mtime in it


class _Counts(NamedTuple):
    """The CPU time, bytes and sockets of one process so far."""

    pid: int
    cpu_seconds: float
    bytes: tuple[int, int] | None  # read and written
    sockets: frozenset[int] | None  # None: they are in another network namespace, or may not be listed


def process_work(
    process: ProcessId,
    threads: Collection[int],
    proc: Path = Path("/proc"),
    dump: Callable[[Container[int]], Dump] = sock_diag.dump,
) -> ProcessWork | None:
    """Return the work of a process with its children; None if it has ended. `threads`: those that run Python code."""
    try:
        with process.opened(proc) as folder:
            return _work_in(folder, process.pid, threads, proc, dump)
    except OSError:
        return None


def _work_in(
    folder: Path, pid: int, threads: Collection[int], proc: Path, dump: Callable[[Container[int]], Dump]
) -> ProcessWork | None:
    stat = stat_in(folder)
    if stat is None:
        return None
    counts = [_counts(pid, folder, stat, proc)]
    waits = [wait_channel(folder / "task" / str(thread)) or "" for thread in threads]
    for child, child_folder, child_stat in islice(children(pid, folder, proc, _GENERATIONS), _MAX_PROCESSES):
        counts.append(_counts(child, child_folder, child_stat, proc))
        waits.append(wait_channel(child_folder / "task" / str(child)) or "")
    known = [process.bytes for process in counts if process.bytes is not None]
    complete = len(known) == len(counts) <= _MAX_PROCESSES
    return ProcessWork(
        cpu_seconds=sum(process.cpu_seconds for process in counts),
        read_bytes=sum(read for read, _ in known) if complete else None,
        written_bytes=sum(written for _, written in known) if complete else None,
        network_bytes=_network_bytes([process.sockets for process in counts], dump),
        processes=tuple(process.pid for process in counts),
        switches=_switches(folder / "status"),
        waits=tuple(waits),
        file=_written_file(folder),
        file_system=_file_system(folder),
    )


def _counts(pid: int, folder: Path, stat: ProcessStat, proc: Path) -> _Counts:
    return _Counts(pid, stat.cpu_seconds, _io(folder), _sockets(folder, proc))


def _io(folder: Path) -> tuple[int, int] | None:
    """Return the bytes that one process has read and written; None if they may not be read.

    `rchar` has what went through system calls, `read_bytes` what came from a disk. Only `read_bytes` has mapped files.
    """
    try:
        text = (folder / "io").read_text()
        count = {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)$", text, re.M)}
        return max(count["rchar"], count["read_bytes"]), max(count["wchar"], count["write_bytes"])
    except (OSError, KeyError):
        return None


def _sockets(folder: Path, proc: Path) -> frozenset[int] | None:
    try:
        if (folder / "ns/net").readlink() != (proc / "self/ns/net").readlink():
            return None
        return frozenset(socket_inodes(folder / "fd"))
    except OSError:
        return None


def _network_bytes(sockets: Collection[frozenset[int] | None], dump: Callable[[Container[int]], Dump]) -> int | None:
    """Return the bytes that the processes' open TCP connections have sent and received; None if they are unknown."""
    if None in sockets:
        return None
    inodes = frozenset(inode for inodes_of_process in sockets if inodes_of_process for inode in inodes_of_process)
    try:
        connections = dump(inodes).connections if inodes else ()
    except OSError:
        return None
    counts = [count for each in connections for count in (each.acked_bytes, each.received_bytes)]
    return None if None in counts else sum(count for count in counts if count is not None)


def _switches(status: Path) -> int | None:
    counts = re.findall(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", text_of(status), re.M)
    return sum(map(int, counts)) if counts else None


def wait_channel(folder: Path) -> str | None:
    """Return the kernel function in which a thread with this folder waits; None if it runs, or if that is unknown."""
    name = text_of(folder / "wchan")
    return None if name in ("", "0") else name


def _written_file(folder: Path) -> str | None:
    """Return the path of the regular file that the process has open for writing and that was changed last."""
    changed: list[tuple[tuple[int, int], str]] = []
    with contextlib.suppress(OSError):
        for descriptor in names_in(folder / "fd")[:_MAX_FILES]:
            with contextlib.suppress(OSError, ValueError, AttributeError):  # the C library may have no statx
                path = os.readlink(folder / "fd" / descriptor)  # noqa: PTH115  # twice as fast as Path
                if not path.startswith("/") or path.startswith(("/dev/", "/proc/", "/memfd:")):
                    continue
                info = (folder / "fdinfo" / descriptor).read_text()
                flags = re.search(r"^flags:\s*([0-7]+)$", info, re.M)
                if flags and int(flags[1], 8) & _WRITABLE:
                    changed.append((_change_time(f"{folder}/fd/{descriptor}"), path))
    return redacted(plain(max(changed)[1])) if changed else None


def _change_time(path: str) -> tuple[int, int]:
    """Return when a file was last changed, as far as this host knows, in unix seconds and nanoseconds. Raises OSError.

    stat(2) would ask the server of the file, and wait for ever if that server is why the rank stands still (statx(2)).
    """
    status = ctypes.create_string_buffer(_STATX_BYTES)
    if _libc.statx(_AT_FDCWD, path.encode(), _AT_STATX_DONT_SYNC, _STATX_MTIME, status):
        raise OSError(ctypes.get_errno(), f"statx of {path} failed")
    seconds, nanoseconds = struct.unpack_from("=qI", status, _MTIME_OFFSET)
    return seconds, nanoseconds


def _file_system(folder: Path) -> str | None:
    """Return the type of the file system of the open file that the main thread reads, writes or closes now.

    That file is the first argument of the system call. In any other call, the argument is no open file, or a file
    without a mount. None: there is no such file, or the agent may not read it.
    """
    try:
        call = (folder / "syscall").read_text().split()  # `running`, or a number, then the arguments
        info = (folder / "fdinfo" / str(int(call[1], 16))).read_text()
        mount = re.search(r"^mnt_id:\s*(\d+)$", info, re.M)
        mounts = text_of(folder / "mountinfo")
    except (OSError, ValueError, IndexError):
        return None
    line = mount and re.search(rf"^{mount[1]} .* - (\S+) ", mounts, re.M)
    return plain(line[1]) if line else None
