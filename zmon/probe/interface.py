"""The network interface that carries this job, and its byte counters.

Only local rank 0 reads them, so that sums over ranks are right. A reading is two `pread`s of open sysfs files. Layout:
Documentation/ABI/testing/sysfs-class-net-statistics in the sources of Linux.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def job_interface(env: Mapping[str, str], one_host: bool, sys: Path = Path("/sys")) -> JobInterface | None:
    """Open the interface that carries the traffic of the job; return None if it is unknown."""
    name = job_interface_name(env, one_host, sys)
    try:
        return JobInterface(name, sys) if name else None
    except OSError:
        return None


def job_interface_name(env: Mapping[str, str], one_host: bool, sys: Path = Path("/sys")) -> str | None:
    """Return the name of the interface that carries the traffic of the job, or None if it is unknown.

    It is `lo` if all peers are on this host, else the one that the environment sets for gloo or NCCL. NCCL takes a name
    as a prefix unless it begins with `=`; `^` excludes a name (NCCL_SOCKET_IFNAME).
    """
    if one_host:
        return "lo"
    folder = sys / "class/net"
    present = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    for name in env.get("GLOO_SOCKET_IFNAME", "").split(","):
        if name in present:
            return name
    nccl_names = env.get("NCCL_SOCKET_IFNAME", "")
    if not nccl_names or nccl_names.startswith("^"):
        return None
    names = nccl_names.removeprefix("=").split(",")
    if nccl_names.startswith("="):
        return next((name for name in names if name in present), None)
    return next((name for prefix in names for name in present if name.startswith(prefix)), None)


class JobInterface:
    """The byte counters of one interface, held open."""

    def __init__(self, name: str, sys: Path = Path("/sys")) -> None:
        """Open the counters; raises OSError if the interface does not exist."""
        self.name = name
        folder = sys / "class/net" / name / "statistics"
        self._sent = os.open(folder / "tx_bytes", os.O_RDONLY | os.O_CLOEXEC)
        self._received = os.open(folder / "rx_bytes", os.O_RDONLY | os.O_CLOEXEC)
        self._last = self.read()

    def since_last(self) -> tuple[int, int] | None:
        """Return the bytes sent and received since the last reading; None if it is gone or its counters were reset."""
        before, now = self._last, self.read()
        self._last = now
        if before is None or now is None:
            return None
        sent, received = now[0] - before[0], now[1] - before[1]
        return (sent, received) if min(sent, received) >= 0 else None

    def read(self) -> tuple[int, int] | None:
        """Return the bytes sent and received since boot, or None if the interface is gone."""
        try:  # 32 bytes hold any number of 64 bits, in digits
            return int(os.pread(self._sent, 32, 0)), int(os.pread(self._received, 32, 0))
        except (OSError, ValueError):
            return None
