"""Writes files so that neither `kill -9` nor a full disk leaves half of one.

A file is written under another name, and renamed once it is complete. What is appended to a file ends with a newline,
and is cut off again if it did not fit. Everything that a hub keeps is written here; errors are OSError.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_MODE = 0o600  # jobs' messages, labels and frames are private to the user
_FOLDER_MODE = 0o700


def replace_file(path: Path, parts: Iterable[bytes], sync: bool = True) -> int:
    """Write a file that replaces the old one, if any; return its size. After an error the old file is unchanged.

    `sync`: also survive a power failure; takes some milliseconds.
    """
    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    partial = path.parent / f".{path.name}.partial"
    partial.unlink(missing_ok=True)
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
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

    The line begins on a line of its own even if a killed process left half a line.
    """
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
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
