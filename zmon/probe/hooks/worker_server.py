"""Starts torch's worker server, through which the agent reads flight records and stacks of the rank.

The worker server is a small C++ HTTP server on a Unix socket (torch/csrc/distributed/c10d/control_plane; torch 2.9 or
newer). It returns the flight record even while a native call holds the interpreter lock; stacks need that lock for a
moment. The socket is beside the box, or under /tmp if that path is too long for a socket address (108 bytes, unix(7)).
The server starts without a message, so that a watched job prints the same as an unwatched one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from zmon import probe
from zmon.box.rank_files import SHORT_PATHS

_MAX_PATH = 107  # bytes of a socket's path, without the zero byte at its end (unix(7))
_ERROR = 2  # c10/util/Logging.h: INFO 0, WARNING 1, ERROR 2, FATAL 3
_started_by = 0  # the pid of the process that has started it; a forked rank needs its own


def install() -> None:
    """Start the server; without it, findings have neither stacks nor the collectives in flight."""
    global _started_by
    timeline = probe.current
    if timeline is None or _started_by == os.getpid():
        return
    from torch._C._distributed_c10d import _WorkerServer

    path = socket_path(timeline.box.path)
    path.unlink(missing_ok=True)
    with _no_warnings_of_torch():
        server = _WorkerServer(str(path))
    # Neither the destructor nor the shutdown of the server may ever run (torch 2.13): one reference is never released.
    # When a forked worker ends, the destructor would shut down the listening socket that it shares with the rank. The
    # server thread of the rank would then throw ("failed to listen") and end the rank. And a shutdown before the server
    # thread listens would wait forever. The thread ends with the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    atexit.register(_remove, path, os.getpid())
    _started_by = os.getpid()
    path.chmod(0o600)
    probe.identify(socket=str(path))


@contextlib.contextmanager
def _no_warnings_of_torch() -> Iterator[None]:
    """Raise the log level of torch's C++ code to ERROR while the server starts.

    The constructor logs its address as a warning (WorkerServer.cpp). The server logs nothing more until its shutdown,
    which never happens. Once torch is imported, only this variable changes the level. The caller's thread keeps the GIL
    meanwhile, so no other Python code runs, and only messages of torch's own threads can be lost. A torch without the
    variable prints the warning.

    The alternatives are worse. Redirecting file descriptor 2 could lose any output. With a file table of its own
    (`unshare`), the server thread would lack the files through which it asks CUDA for the flight record.
    """
    try:
        library = ctypes.CDLL("libc10.so", mode=os.RTLD_NOLOAD)  # fails if torch has not loaded it
        level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    previous = level.value
    try:
        level.value = max(previous, _ERROR)
        yield
    finally:
        level.value = previous


def _remove(path: Path, rank_pid: int) -> None:
    """Remove the socket when the rank ends, but not when a worker forked from it ends."""
    if os.getpid() == rank_pid:
        path.unlink(missing_ok=True)


def socket_path(box: Path) -> Path:
    """Return the path of the socket: beside the box, or under /tmp if that is too long."""
    beside = box.with_suffix(".sock")
    if len(os.fsencode(beside)) <= _MAX_PATH:
        return beside
    return SHORT_PATHS / f"zmon-{hashlib.blake2b(os.fsencode(beside), digest_size=8).hexdigest()}.sock"
