"""Locks a data directory, so that two processes of one kind never write to it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from zmon.errors import UsageError


def lock_directory(directory: Path, name: str, holder: str, next_step: str) -> int:
    """Lock the file `name` in a directory until this process ends; return its descriptor.

    Raises UsageError, which says `holder` and `next_step`, if another process holds it. Raises OSError if the directory
    cannot be written to, or cannot be locked.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise UsageError(f"{directory} is in use", holder, next_step) from None
    except OSError:
        os.close(fd)
        raise
    return fd
