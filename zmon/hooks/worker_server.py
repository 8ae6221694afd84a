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
from typing import Any

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
    # Its destructor must never run: in a forked worker that ends it would shut down the listening socket that it shares
    # with the rank, whose server thread then throws and takes the whole rank with it ("failed to listen", torch 2.13).
    # So one reference is never given back, and the rank itself shuts it down at its end.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    atexit.register(_shut_down, server, os.getpid())
    _started = True
    path.chmod(0o600)
    probe.identify(socket=str(path))


def _shut_down(server: Any, rank_pid: int) -> None:
    if os.getpid() == rank_pid:
        server.shutdown()


def socket_path(box: Path) -> Path:
    """Beside the box, or under /tmp where that is too long."""
    beside = box.with_suffix(".sock")
    if len(os.fsencode(beside)) <= _MAX_PATH:
        return beside
    return Path(f"/tmp/zmon-{hashlib.blake2b(os.fsencode(beside), digest_size=8).hexdigest()}.sock")
