"""Read the end of each rank's stderr, even after the rank died.

`/proc/<pid>/fd/2` leads to the file only while the process lives, so the file is held open from the first sight of the
rank until shortly after its end. Only the rank's own process is read, never a later process with the same number.

Only regular files are read: data in a pipe or terminal is not stored, and reading it would take it from its reader.
Each file is first opened as a path only (O_PATH, open(2)), so that a FIFO or a device is never opened. A file is read
only if the rank has it open for writing and may write it: with O_PATH a process can hold any file as its stderr, and
this process may be root.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from zmon.agent.sources.reading import Reading
from zmon.format import plain, plain_lines
from zmon.process import ProcessId

TAIL_BYTES = 8192
_BEFORE_BYTES = 1024  # of these, what was written before the rank was last seen alive; its own error comes later
OPEN_SECONDS = 120.0  # how long a file stays open after the rank's end; the hub asks for it sooner
MAX_FILES = 256
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a terminal or device"}


@dataclass
class _Stderr:
    """The stderr of one rank: the open file, or the reason why there is none."""

    file_id: tuple[int, int] | None = None  # device and inode
    fd: int | None = None
    path: str | None = None
    living_bytes: int = 0  # size of the file when the rank was last seen alive
    reason: str = "it has not been opened yet"
    gone_at: float | None = None  # monotonic seconds

    def close(self) -> None:
        self.file_id = None
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


class StderrEnd(NamedTuple):
    """The end of the stderr of one rank, or the reason why there is none."""

    text: str | None = None  # at most TAIL_BYTES, without a first line that is cut off
    error: str | None = None
    path: str | UnsetType | None = UNSET  # UNSET: the agent did not look for the file
    is_shared: bool | UnsetType = UNSET  # other ranks of this host write to it, as under torchrun without --redirects


class StderrSource:
    """The stderr files of the ranks. `runs` returns the processes of living ranks in this PID namespace, by run uid."""

    name = "stderr"
    interval_seconds = 1.0

    def __init__(
        self,
        runs: Callable[[], Mapping[str, ProcessId]],
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._proc, self._clock = runs, proc, clock
        self._files: dict[str, _Stderr] = {}  # stderr of each rank, by run uid

    def read(self) -> Reading:
        """Open the stderr file of each rank, and close the files of ranks long gone. The content is not read."""
        runs = self._runs()
        now = self._clock()
        for uid, process in runs.items():
            if uid in self._files or len(self._files) < MAX_FILES:
                self._update(self._files.setdefault(uid, _Stderr()), process)
        for uid in [uid for uid in self._files if uid not in runs]:
            file = self._files[uid]
            file.gone_at = now if file.gone_at is None else file.gone_at
            if now - file.gone_at > OPEN_SECONDS:
                self._files.pop(uid).close()
        left_out = sum(uid not in self._files for uid in runs)
        return Reading(None, (f"{left_out} ranks: at most {MAX_FILES} files are open",) if left_out else ())

    def tail(self, run_uid: str) -> StderrEnd:
        """Return the end of a rank's stderr.

        After the end of a rank, the other ranks and the launcher write much more to a file that they share. This must
        not push out the rank's last lines, so the text then begins shortly before the end of the rank.
        """
        file = self._files.get(run_uid, _Stderr(reason="the agent never saw the rank alive, or it ended too long ago"))
        is_shared = file.fd is not None and sum(other.file_id == file.file_id for other in self._files.values()) > 1
        text: str | None = None
        error: str | None = file.reason
        if file.fd is not None:
            try:
                start = max(0, os.fstat(file.fd).st_size - TAIL_BYTES)
                if is_shared and run_uid not in self._runs():
                    start = min(start, max(0, file.living_bytes - _BEFORE_BYTES))
                raw = os.pread(file.fd, TAIL_BYTES, start)
                # A line without its beginning may be a secret without its name.
                raw = raw.partition(b"\n")[2] or raw if start else raw
                text, error = plain_lines(raw.decode("utf-8", "replace")), None
            except OSError as failure:
                error = f"cannot read {file.path}: {failure.strerror}"
        return StderrEnd(text, error, file.path, is_shared)

    def _update(self, file: _Stderr, process: ProcessId) -> None:
        """Open the file if stderr does not go to the same file as before, or if that could not be opened."""
        try:
            with contextlib.ExitStack() as on_failure:
                with process.opened(self._proc) as folder:
                    link = folder / "fd/2"
                    status = link.stat()
                    file.living_bytes = status.st_size
                    file_id = status.st_dev, status.st_ino
                    if file.file_id == file_id:
                        return
                    on_failure.callback(file.close)
                    file.close()
                    file.path = plain(os.readlink(link))  # noqa: PTH115
                    file.fd, file.file_id = _open_for_reading(folder), file_id
                on_failure.pop_all()  # the process was the same one all the time
                file.reason = ""
        except _NotAFile as kind:
            file.reason = f"it goes to {kind}, which zmon does not read"
        except (FileNotFoundError, ProcessLookupError):
            return  # the rank is ending, and its file stays open
        except OSError as error:
            file.reason = f"cannot open it: {error.strerror}"


class _NotAFile(Exception):
    """The stderr is not a regular file, or the rank may not write it. The message names what it is."""


def _open_for_reading(process: Path) -> int:
    """Open the stderr of a process. Raises _NotAFile unless it is a regular file that the process writes."""
    path_only = os.open(process / "fd/2", os.O_PATH | os.O_CLOEXEC)
    try:
        status = os.fstat(path_only)
        kind = stat.S_IFMT(status.st_mode)
        if kind != stat.S_IFREG:
            raise _NotAFile(_KINDS.get(kind, "no regular file"))
        if not (_is_written(process) and _may_write(process, status)):
            raise _NotAFile("a file that the rank does not or may not write")
        return os.open(f"/proc/self/fd/{path_only}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(path_only)


def _is_written(process: Path) -> bool:
    """Return True if the process has its stderr open for writing (proc_pid_fdinfo(5))."""
    flags = int(_field(process / "fdinfo/2", "flags")[0], 8)
    return not flags & os.O_PATH and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _may_write(process: Path, file: os.stat_result) -> bool:
    """Return True if the user of the process, by its real ids (setuid does not change them), may write the file."""
    uid, gid = (int(_field(process / "status", name)[0]) for name in ("Uid", "Gid"))
    groups = {gid, *map(int, _field(process / "status", "Groups"))}
    in_group = file.st_gid in groups and bool(file.st_mode & stat.S_IWGRP)
    return uid in (0, file.st_uid) or in_group or bool(file.st_mode & stat.S_IWOTH)


def _field(path: Path, name: str) -> list[str]:
    """Return the words of one line of a file in /proc."""
    lines = path.read_text(errors="replace").splitlines()
    return next(line for line in lines if line.startswith(f"{name}:")).split()[1:]
