"""The sources that the agent reads: each has a file of its own, and a line in `all_sources` to register it.

A source has a name, an interval in seconds and a `read()`. It returns a `Reading`, raises SourceUnavailable if the
machine has nothing of the kind, and raises anything else if it failed. A single odd device is left out and reported in
`Reading.dropped`; the others are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from zmon.agent.sources.cgroups import CgroupSource
from zmon.agent.sources.clock import ClockSource
from zmon.agent.sources.gpu import GpuSource
from zmon.agent.sources.held import HeldSource
from zmon.agent.sources.holders import Holder
from zmon.agent.sources.host import HostSource
from zmon.agent.sources.kernel_log import KernelLogSource
from zmon.agent.sources.nic import NicSource
from zmon.agent.sources.processes import ProcessSource
from zmon.agent.sources.rdma import RdmaSource
from zmon.agent.sources.reading import Ranks, Reading
from zmon.agent.sources.storage import StorageSource
from zmon.agent.sources.tcp import TcpSource
from zmon.job.lease import Leases
from zmon.schema.host import GpuSample
from zmon.schema.rank import RankState


class Source(Protocol):
    """One thing that the agent reads, such as the GPUs of the host."""

    name: str
    field: str  # the field of HostSample that holds its value
    interval_seconds: float

    def read(self) -> Reading:
        """Return the value now, and what was left out."""


def all_sources(
    ranks: Ranks,
    stands_still: Callable[[], bool] = lambda: False,
    gpus: Callable[[], Sequence[GpuSample] | None] = lambda: None,
    states: Callable[[], Sequence[tuple[RankState, int]]] = tuple,
    leases: Leases | None = None,
    pods: Callable[[], Sequence[Holder] | None] = lambda: None,
) -> tuple[Source, ...]:
    """Return every hardware source. The black boxes are read separately, ten times a second.

    `stands_still` returns True while a rank makes no progress. The other functions return what the agent read last:
    `gpus` the GPUs, `states` the ranks with their pids, and `pods` the pods that hold GPUs. `gpus` and `pods` return
    None if that is unknown.
    """
    return (
        GpuSource(),
        NicSource(),
        RdmaSource(),
        TcpSource(ranks, stands_still=stands_still),
        HostSource(),
        StorageSource(),
        CgroupSource(ranks),
        ClockSource(),
        KernelLogSource(),
        ProcessSource(ranks),
        HeldSource(gpus, states, leases or Leases(), pods),
    )


__all__ = ["Ranks", "Reading", "Source", "all_sources"]
