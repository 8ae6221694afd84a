"""A way to ask the rank for its stacks and its flight record while it cannot answer in Python.

torch's worker server is a small C++ HTTP server on a Unix socket; it answers while a native call holds the GIL. torch
2.9 or newer (torch/csrc/distributed/c10d/control_plane). It stands beside the box; where the path would be too long
for a socket address (108 bytes, unix(7)), under /tmp.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from zmon import probe

_MAX_PATH = 107
_server: Any = None  # lives as long as the process


def install() -> None:
    """Start the server; without it findings have no stacks."""
    global _server
    timeline = probe.timeline()
    if timeline is None or _server is not None:
        return
    from torch._C._distributed_c10d import _WorkerServer

    path = socket_path(timeline.box.path)
    path.unlink(missing_ok=True)
    _server = _WorkerServer(str(path))
    path.chmod(0o600)
    probe.identify(socket=str(path))


def socket_path(box: Path) -> Path:
    """Beside the box, or under /tmp where that is too long."""
    beside = box.with_suffix(".sock")
    if len(os.fsencode(beside)) <= _MAX_PATH:
        return beside
    return Path(f"/tmp/zmon-{hashlib.blake2b(os.fsencode(beside), digest_size=8).hexdigest()}.sock")
