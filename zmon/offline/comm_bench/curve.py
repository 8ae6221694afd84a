"""Bandwidth and latency of each op, from how long messages of several sizes took.

Pure. Seconds, bytes. A collective takes a latency and what its bytes take (Hockney 1994); the line is fitted by
relative errors, so that small messages tell the latency as well as large ones the bandwidth. Of ranks of several hosts,
groups within a host and groups with one rank of each were timed apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.scaling.predict import Link, Links, bytes_over_links

HOST, NET = "within a host", "between hosts"


@dataclass(frozen=True)
class Timed:
    """One op with one size, as the slowest rank of a group saw it."""

    op: str
    group: str  # HOST or NET
    ranks: int  # of the group
    num_bytes: int  # that each hands in
    seconds: float

    @property
    def bus_bytes_per_second(self) -> float:
        """What passed each rank's links, as nccl-tests has it."""
        return sum(bytes_over_links(self.op, self.num_bytes, self.ranks, self.ranks)) / self.seconds


@dataclass(frozen=True)
class Measured:
    """All of it."""

    backend: str
    ranks: int
    ranks_per_host: int
    timed: Sequence[Timed]


def links(measured: Measured) -> dict[str, Links]:
    """By op."""
    return {op: _links(op, measured) for op in dict.fromkeys(timed.op for timed in measured.timed)}


def _links(op: str, measured: Measured) -> Links:
    host = _line([t for t in measured.timed if t.op == op and t.group == HOST])
    net = _line([t for t in measured.timed if t.op == op and t.group == NET])
    return Links(measured.ranks_per_host, host, net)


def _line(timed: Sequence[Timed]) -> Link | None:
    """None where no group of that kind was timed."""
    if not timed:
        return None
    points = [(sum(bytes_over_links(t.op, t.num_bytes, t.ranks, t.ranks)), t.seconds) for t in timed]
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    x = sum(w * amount for w, (amount, _) in zip(weights, points, strict=True)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / total
    spread = sum(w * (amount - x) ** 2 for w, (amount, _) in zip(weights, points, strict=True))
    slope = sum(w * (a - x) * (s - y) for w, (a, s) in zip(weights, points, strict=True)) / spread if spread else 0.0
    latency = y - slope * x
    if slope <= 0 or latency < 0:  # of one size alone, or noise: all of it is bandwidth
        return Link(sum(amount for amount, _ in points) / sum(seconds for _, seconds in points))
    return Link(1 / slope, latency)
