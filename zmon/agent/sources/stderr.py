"""What did a rank write to its stderr last, even after it died?

`/proc/<pid>/fd/2` leads to the file while the process lives, so the file is held open from when the rank is first seen
until a while after its end. Only regular files that this process may read: what goes to a pipe or a terminal is
nowhere kept, and reading it would take it from its reader. Opened as a place first (O_PATH, open(2)), so that a FIFO
or a device is never opened even for a moment. Only files that the rank writes, and may write: as a place anybody may
open any file, and this process may be root.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zmon.agent.sources.reading import Reading

TAIL_BYTES = 8192
KEPT_SECONDS = 120.0  # after a rank's end: by then the hub has asked
MAX_FILES = 256
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a terminal or device"}


@dataclass
class _Stderr:
    """Where one rank's stderr goes."""

    inode: tuple[int, int] | None = None
    fd: int | None = None
    path: str | None = None
    why_not: str = "nobody has looked yet"
    gone_at: float | None = None  # monotonic seconds

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class StderrSource:
    """The files behind the ranks' stderr. `runs`: pids, as seen from here, of the ranks that live, by run uid."""

    name = "stderr"
    interval_seconds = 1.0

    def __init__(
        self,
        runs: Callable[[], Mapping[str, int]],
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._proc, self._clock = runs, proc, clock
        self._known: dict[str, _Stderr] = {}

    def read(self) -> Reading:
        """Look where each rank's stderr goes now. Nothing of what is in the files."""
        runs, now = self._runs(), self._clock()
        for uid, pid in runs.items():
            if uid in self._known or len(self._known) < MAX_FILES:
                self._look(self._known.setdefault(uid, _Stderr()), self._proc / str(pid))
        for uid in [uid for uid in self._known if uid not in runs]:
            known = self._known[uid]
            known.gone_at = now if known.gone_at is None else known.gone_at
            if now - known.gone_at > KEPT_SECONDS:
                self._known.pop(uid).close()
        left_out = sum(uid not in self._known for uid in runs)
        return Reading(None, (f"{left_out} ranks more than {MAX_FILES}",) if left_out else ())

    def tail(self, run_uid: str) -> dict[str, Any]:
        """The last 8 KiB and where they are from; None and why, where there are none.

        `stderr_shared`: other ranks of this host write to the same file, as under torchrun without --redirects.
        """
        known = self._known.get(run_uid, _Stderr(why_not="it was never seen alive, or is gone too long"))
        text: str | None = None
        error: str | None = known.why_not
        if known.fd is not None:
            try:
                start = max(0, os.fstat(known.fd).st_size - TAIL_BYTES)
                text, error = os.pread(known.fd, TAIL_BYTES, start).decode("utf-8", "replace"), None
            except OSError as failed:
                error = f"cannot read {known.path}: {failed.strerror}"
        shared = sum(other.inode == known.inode for other in self._known.values()) > 1 and text is not None
        return {"stderr_tail": text, "stderr_error": error, "stderr_path": known.path, "stderr_shared": shared}

    def _look(self, known: _Stderr, process: Path) -> None:
        link = process / "fd/2"
        try:
            found = link.stat()
            if known.inode == (found.st_dev, found.st_ino):
                return
            known.close()
            known.inode, known.path = (found.st_dev, found.st_ino), os.readlink(link)  # noqa: PTH115  # it may be no path
            known.fd, known.why_not = _opened(process), ""
        except _NotKept as kind:
            known.why_not = f"it goes to {kind}: not kept"
        except (FileNotFoundError, ProcessLookupError):
            return  # it ends just now, and what it wrote to is held
        except OSError as error:
            known.why_not = f"cannot look where it goes: {error.strerror}"


class _NotKept(Exception):
    """It is no regular file, or none of the rank's."""


def _opened(process: Path) -> int:
    """For reading. Raises _NotKept with what it is, where it is no regular file that the process writes."""
    place = os.open(process / "fd/2", os.O_PATH | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        kind = stat.S_IFMT(found.st_mode)
        if kind != stat.S_IFREG:
            raise _NotKept(_KINDS.get(kind, "no regular file"))
        if not (_is_written(process) and _may_write(process, found)):
            raise _NotKept("a file that the rank does not write, or may not")
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(place)


def _is_written(process: Path) -> bool:
    """Whether it is open for writing (proc_pid_fdinfo(5))."""
    flags = int(_field(process / "fdinfo/2", "flags")[0], 8)
    return not flags & os.O_PATH and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _may_write(process: Path, found: os.stat_result) -> bool:
    """Whether who runs it may write the file; by the real ids, which a program that is setuid does not change."""
    uid, gid = (int(_field(process / "status", name)[0]) for name in ("Uid", "Gid"))
    groups = {gid, *map(int, _field(process / "status", "Groups"))}
    in_group = found.st_gid in groups and bool(found.st_mode & stat.S_IWGRP)
    return uid in (0, found.st_uid) or in_group or bool(found.st_mode & stat.S_IWOTH)


def _field(path: Path, name: str) -> list[str]:
    """The words of one line of a file in /proc."""
    return next(line for line in path.read_text().splitlines() if line.startswith(f"{name}:")).split()[1:]
