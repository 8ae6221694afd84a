"""Files that outlive a daemon: how they are named, locked, written, and kept while the clock may be wrong.

The steps of an agent and everything that a hub keeps are such files. Errors of reading and writing are OSError.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from zmon.errors import UsageError

MAX_NAME_BYTES = 255  # NAME_MAX of Linux
FILE_MODE = 0o600  # jobs' messages, labels and frames are private to the user
FOLDER_MODE = 0o700

JUMP_SECONDS = 60.0  # NTP moves a running clock by less than two seconds an hour
HOLD_SECONDS = 3600.0  # without a jump, until the clock counts as steady


def child_path(folder: Path, name: str, suffix: str = "") -> Path:
    """Return the path of `name + suffix` in a folder. Raises UsageError if that would not lie in the folder.

    The name comes from outside: a job id, the name of a curve, the id of an incident. Every path under a data directory
    that is built from such a name is built here, so that no name leads elsewhere. The name must not have a slash or a
    control character, must not be `.` or `..`, and must not be too long.
    """
    whole = name + suffix
    size = len(whole.encode("utf-8", "replace"))
    if not name or "/" in whole or whole in (".", "..") or not whole.isprintable() or size > MAX_NAME_BYTES:
        why = "it is empty or too long, or has a slash or a control character"
        raise UsageError(f"{name[:80]!r} cannot be the name of a file in {folder}", why, "Choose another name")
    return folder / whole


def lock_directory(directory: Path, name: str, holder: str, next_step: str) -> int:
    """Lock the file `name` in a directory until this process ends; return its descriptor.

    Raises UsageError, which says `holder` and `next_step`, if another process holds it. Raises OSError if the directory
    cannot be written to, or cannot be locked.
    """
    directory.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise UsageError(f"{directory} is in use", holder, next_step) from None
    except OSError:
        os.close(fd)
        raise
    return fd


def replace_file(path: Path, parts: Iterable[bytes], sync: bool = True) -> int:
    """Write a file that replaces the old one, if any; return its size. After an error the old file is unchanged.

    Neither `kill -9` nor a full disk leaves half a file: it is written under another name, and renamed once it is
    complete. `sync`: also survive a power failure; takes some milliseconds.
    """
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    partial = path.parent / f".{path.name}.partial"
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            size = sum(write_all(fd, part) for part in parts)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)  # frees space on a full disk
        raise
    return size


def append_line(path: Path, line: bytes) -> int:
    """Append a line, with its newline, to a file that may not exist; return the size of the file.

    The line is cut off again if it does not fit on the disk. It begins on a line of its own even if a killed process
    left half a line.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        end = os.fstat(fd).st_size
        begins_line = end == 0 or os.pread(fd, 1, end - 1) == b"\n"
        try:
            written = write_all(fd, line if begins_line else b"\n" + line)
            os.fsync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, end)
            raise
        return end + written
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> int:
    """Write all of the data; return its size."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]
    return len(data)


class SteadyClock:
    """Tells whether the wall clock may decide which files are too old. Call `is_steady` at least once an hour.

    A clock that is wrong by a year makes every file too old. It jumps there, or it was wrong when the machine started.
    In both cases somebody, or NTP, puts it right within an hour, and nothing that was deleted comes back.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        """`hold_seconds`: how long the clock must have run without a jump."""
        self._wall, self._monotonic, self._hold_seconds = wall, monotonic, hold_seconds
        self._offset = wall() - monotonic()
        self._steady_from = monotonic() + hold_seconds

    def is_steady(self) -> bool:
        """Return True if this object has watched the wall clock for `hold_seconds` and saw no jump in that time."""
        now = self._monotonic()
        offset = self._wall() - now
        if abs(offset - self._offset) > JUMP_SECONDS:
            self._steady_from = now + self._hold_seconds
        self._offset = offset
        return now >= self._steady_from
