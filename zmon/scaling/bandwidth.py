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
    backend: str
    ranks: int
    ranks_per_host: int
    timed: Sequence[Timed]


def links(measured: Measured) -> dict[str, Links]:
    """Return the links with the fitted bandwidth and latency, by op."""
    return {op: _links(op, measured) for op in dict.fromkeys(message.op for message in measured.timed)}


def _links(op: str, measured: Measured) -> Links:
    host = _line([message for message in measured.timed if message.op == op and message.group == HOST])
    net = _line([message for message in measured.timed if message.op == op and message.group == NET])
    return Links(measured.ranks_per_host, host, net)


def _line(messages: Sequence[Timed]) -> Link | None:
    """Return the bandwidth and the latency that fit these messages; None without a message."""
    if not messages:
        return None
    amounts = [sum(bytes_over_links(m.op, m.num_bytes, m.ranks, m.ranks)) for m in messages]
    seconds = [m.seconds for m in messages]
    weights = [1 / s**2 for s in seconds]  # so that errors count relative to the duration
    mean_bytes = fmean(amounts, weights)
    mean_seconds = fmean(seconds, weights)
    byte_deviations = [a - mean_bytes for a in amounts]
    second_deviations = [s - mean_seconds for s in seconds]
    variance = fmean([deviation**2 for deviation in byte_deviations], weights)
    slope = fmean(map(mul, byte_deviations, second_deviations), weights) / variance if variance else 0.0
    latency = mean_seconds - slope * mean_bytes
    if slope <= 0 or latency < 0:  # a single size, or noise: assume no latency
        return Link(sum(amounts) / sum(seconds))
    return Link(1 / slope, latency)
