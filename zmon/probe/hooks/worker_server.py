"""A way to ask the rank what it has in flight while it cannot answer in Python, and for its stacks.

torch's worker server is a small C++ HTTP server on a Unix socket (torch/csrc/distributed/c10d/control_plane; torch 2.9
or newer). It tells the flight record even while a native call holds the interpreter lock; stacks need that lock for a
moment. It stands beside the box; where the path would be too long for a socket address (108 bytes, unix(7)), under
/tmp. It starts in silence: a watched job prints what an unwatched one does.
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

_MAX_PATH = 107
_ERROR = 2  # c10/util/Logging.h: INFO 0, WARNING 1, ERROR 2, FATAL 3
_started = False


def install() -> None:
    """Start the server; without it findings have neither stacks nor what is in flight."""
    global _started
    timeline = probe.current
    if timeline is None or _started:
        return
    from torch._C._distributed_c10d import _WorkerServer

    path = socket_path(timeline.box.path)
    path.unlink(missing_ok=True)
    with _no_warnings_of_torch():
        server = _WorkerServer(str(path))
    # Neither its destructor nor its shutdown must ever run, so one reference is never given back (torch 2.13). In a
    # forked worker that ends, the destructor would shut down the listening socket that it shares with the rank, whose
    # server thread then throws and takes the rank with it ("failed to listen"). And a shutdown before the server thread
    # has begun to listen waits for it for ever. The thread ends with the process.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    atexit.register(_remove, path, os.getpid())
    _started = True
    path.chmod(0o600)
    probe.identify(socket=str(path))


@contextlib.contextmanager
def _no_warnings_of_torch() -> Iterator[None]:
    """Raise the log level of torch's C++ to ERROR, which nothing but its variable can do once torch is imported.

    The constructor warns where it listens (WorkerServer.cpp), from the caller's thread, which keeps the GIL: for those
    0.2 ms no Python runs, and what a thread of torch's own would log below ERROR is all that could be lost. Redirecting
    file descriptor 2 instead could lose anybody's output; a file table of the server's own (`unshare`) would leave its
    thread without the files through which CUDA is asked about the flight record. The server says no more until it is
    shut down, which it never is. A torch without the variable says its line.
    """
    try:
        library = ctypes.CDLL("libc10.so", mode=os.RTLD_NOLOAD)  # the one that torch has loaded, or none
        level = ctypes.c_int.in_dll(library, "FLAGS_caffe2_log_level")
    except (OSError, ValueError):
        yield
        return
    before = level.value
    try:
        level.value = max(before, _ERROR)
        yield
    finally:
        level.value = before


def _remove(path: Path, rank_pid: int) -> None:
    """Take the socket away at the rank's end, not at that of a worker forked from it."""
    if os.getpid() == rank_pid:
        path.unlink(missing_ok=True)


def socket_path(box: Path) -> Path:
    """Beside the box, or under /tmp where that is too long."""
    beside = box.with_suffix(".sock")
    if len(os.fsencode(beside)) <= _MAX_PATH:
        return beside
    return Path(f"/tmp/zmon-{hashlib.blake2b(os.fsencode(beside), digest_size=8).hexdigest()}.sock")
