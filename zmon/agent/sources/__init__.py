"""What the agent reads: one source per file, one line here to register it.

A source has a name, an interval in seconds and a `read()` that returns what it saw, raises SourceUnavailable where the
machine has nothing of the kind, and anything else when it failed. One odd device is left out, and said, while the
rest goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from zmon.agent.sources.cgroups import CgroupSource
from zmon.agent.sources.clock import ClockSource
from zmon.agent.sources.gpu import GpuSource
from zmon.agent.sources.host import HostSource
from zmon.agent.sources.kernel_log import KernelLogSource
from zmon.agent.sources.nic import NicSource
from zmon.agent.sources.processes import ProcessSource
from zmon.agent.sources.rdma import RdmaSource
from zmon.agent.sources.reading import Ranks, Reading
from zmon.agent.sources.storage import StorageSource
from zmon.agent.sources.tcp import TcpSource


class Source(Protocol):
    """One thing to read."""

    name: str
    field: str  # of HostSample, where its reading goes
    interval_seconds: float

    def read(self) -> Reading:
        """The reading."""


def all_sources(ranks: Ranks, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> tuple[Source, ...]:
    """Every hardware source. Black boxes are read apart, ten times a second."""
    return (
        GpuSource(sys),
        NicSource(sys),
        RdmaSource(sys),
        TcpSource(ranks, proc),
        HostSource(proc),
        StorageSource(proc, sys),
        CgroupSource(ranks, proc, sys / "fs/cgroup"),
        ClockSource(),
        KernelLogSource(),
        ProcessSource(ranks, proc),
    )


__all__ = ["Ranks", "Reading", "Source", "all_sources"]
