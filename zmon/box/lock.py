"""The lock on a box, which shows whether its rank is alive; the locks on folders; and how both are opened.

`fcntl(F_GETLK)` asks the kernel which process holds a POSIX record lock (fcntl_locking(2)). This works across PID
namespaces and needs no answer from the rank. Unlike a flock, such a lock is not inherited by forked workers. The kernel
releases it when the process ends, for whatever reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid
_LOCK_POLL_SECONDS = 0.005  # time between two attempts to lock a folder


def holder(fd: int) -> int | None:
    """Return the pid that holds the lock; None: the rank has ended; 0: it lives in another PID namespace."""
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, request))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def lock_folder(fd: int, seconds: float) -> bool:
    """Lock a folder (flock(2)); return False if another process still has the lock after this time. Raises OSError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)


@contextlib.contextmanager
def opened(
    path: Path | str, flags: int = os.O_NONBLOCK, parent: int | None = None, follow: bool = False
) -> Iterator[int]:
    """Open a file or a folder of a user, but no link unless `follow`, and close it. Raises OSError.

    `parent`: the descriptor of the folder that contains it. Closing the file releases no lock of another process.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags | (0 if follow else os.O_NOFOLLOW), dir_fd=parent)
    try:
        yield fd
    finally:
        os.close(fd)
