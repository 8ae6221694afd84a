"""Which network interface carries this job, and what it has counted.

Read by local rank 0 alone at every step, so sums over ranks are right: two `pread`s of open sysfs files,
under a microsecond each. Layout: Documentation/ABI/testing/sysfs-class-net-statistics.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def job_interface_name(env: Mapping[str, str], world_size: int, local_world_size: int, sys: Path) -> str | None:
    """The interface the job's own traffic takes; None where the environment does not say."""
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        chosen = env.get(name, "").lstrip("=^").split(",")[0]
        if chosen and (sys / "class/net" / chosen).exists():
            return chosen
    return "lo" if world_size == local_world_size else None


class JobInterface:
    """The byte counters of one interface, held open."""

    def __init__(self, name: str, sys: Path = Path("/sys")) -> None:
        """Raises OSError where the interface does not exist."""
        self.name = name
        folder = sys / "class/net" / name / "statistics"
        self._sent = os.open(folder / "tx_bytes", os.O_RDONLY | os.O_CLOEXEC)
        self._received = os.open(folder / "rx_bytes", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> tuple[int, int] | None:
        """Bytes sent and received since boot; None once the interface is gone."""
        try:
            return int(os.pread(self._sent, 32, 0)), int(os.pread(self._received, 32, 0))
        except (OSError, ValueError):
            return None
