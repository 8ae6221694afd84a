"""Is the rank alive? Its lock on the box says so, across PID namespaces and without its help.

`fcntl(F_GETLK)` asks the kernel who holds a POSIX record lock (fcntl_locking(2)). Unlike flock such a lock is not
inherited by forked workers, and the kernel drops it when the process goes, however it goes.
"""

from __future__ import annotations

import fcntl
import os
import struct

_FLOCK = struct.Struct("hhqqi4x")  # struct flock on 64-bit Linux: type, whence, start, len, pid


def holder(fd: int) -> int | None:
    """The pid that holds the lock (0 where it lives in another PID namespace); None: nobody, it is gone."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)
