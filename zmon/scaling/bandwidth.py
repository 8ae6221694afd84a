"""Bandwidth and latency of each op, fitted to the durations of messages of several sizes.

Pure. Seconds, bytes. The duration of a collective is its latency plus its bytes divided by the bus bandwidth (Hockney
1994). The fit uses relative errors, so that small messages determine the latency and large ones the bandwidth. If the
ranks are on several hosts, groups within a host and groups with one rank per host are timed separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean

from zmon.scaling.predict import Link, Links, bytes_over_links

HOST, NET = "within a host", "between hosts"


@dataclass(frozen=True)
class Timed:
    """The duration of one op with one message size, on the slowest rank of a group."""

    op: str
    group: str  # HOST or NET
    ranks: int  # number of ranks in the group
    num_bytes: int  # bytes that each rank hands in: the size in nccl-tests
    seconds: float

    @property
    def bus_bytes_per_second(self) -> float:
        """The bus bandwidth, as nccl-tests defines it."""
        return sum(bytes_over_links(self.op, self.num_bytes, self.ranks, self.ranks)) / self.seconds


@dataclass(frozen=True)
class Measured:
    """The result of a benchmark."""

    backend: str
    ranks: int
    ranks_per_host: int
    timed: Sequence[Timed]


def links(measured: Measured) -> dict[str, Links]:
    """Return the fitted bandwidth and latency by op."""
    return {op: _links(op, measured) for op in dict.fromkeys(timed.op for timed in measured.timed)}


def _links(op: str, measured: Measured) -> Links:
    host = _line([t for t in measured.timed if t.op == op and t.group == HOST])
    net = _line([t for t in measured.timed if t.op == op and t.group == NET])
    return Links(measured.ranks_per_host, host, net)


def _line(timed: Sequence[Timed]) -> Link | None:
    """Return the fitted line, or None if no group of this kind was timed."""
    if not timed:
        return None
    amounts = [sum(bytes_over_links(t.op, t.num_bytes, t.ranks, t.ranks)) for t in timed]
    seconds = [t.seconds for t in timed]
    weights = [1 / s**2 for s in seconds]
    x, y = fmean(amounts, weights), fmean(seconds, weights)
    spread = fmean([(amount - x) ** 2 for amount in amounts], weights)
    slope = fmean(map(mul, [a - x for a in amounts], [s - y for s in seconds]), weights) / spread if spread else 0.0
    latency = y - slope * x
    if slope <= 0 or latency < 0:  # a single size, or noise: assume no latency
        return Link(sum(amounts) / sum(seconds))
    return Link(1 / slope, latency)
