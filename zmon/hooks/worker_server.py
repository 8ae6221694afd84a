"""A way to ask the rank for its stacks and its flight record while it cannot answer in Python.

torch's worker server is a small C++ HTTP server on a Unix socket; it answers while a native call holds the GIL. torch
2.9 or newer (torch/csrc/distributed/c10d/control_plane). It stands beside the box; where the path would be too long
for a socket address (108 bytes, unix(7)), under /tmp.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
from pathlib import Path

from zmon import probe

_MAX_PATH = 107
_started = False


def install() -> None:
    """Start the server; without it findings have no stacks."""
    global _started
    timeline = probe.timeline()
    if timeline is None or _started:
        return
    from torch._C._distributed_c10d import _WorkerServer

    path = socket_path(timeline.box.path)
    path.unlink(missing_ok=True)
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
