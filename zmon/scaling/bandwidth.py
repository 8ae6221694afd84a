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

HOST, NET = "within a host", "between hosts"  # where the ranks of a group are


@dataclass(frozen=True)
class TimedMessage:
    """The duration of one op with one size of message, on the slowest rank of a group."""

    op: str
    group: str  # HOST or NET
    ranks: int  # number of ranks in the group
    num_bytes: int  # bytes that each rank hands in: the size in nccl-tests
    seconds: float

    @property
    def bytes_over_link(self) -> float:
        """The bytes that pass over the link of a rank."""
        return sum(bytes_over_links(self.op, self.num_bytes, self.ranks, self.ranks))

    @property
    def bus_bytes_per_second(self) -> float:
        """The bus bandwidth, as nccl-tests defines it."""
        return self.bytes_over_link / self.seconds


@dataclass(frozen=True)
class MeasuredLinks:
    """The measurements of `zmon bench-comm`. The fields are the keys of its file."""

    backend: str
    ranks: int
    ranks_per_host: int
    timed: Sequence[TimedMessage]


def links(measured: MeasuredLinks) -> dict[str, Links]:
    """Return the links with the fitted bandwidth and latency, by op."""
    return {op: _links(op, measured) for op in dict.fromkeys(message.op for message in measured.timed)}


def _links(op: str, measured: MeasuredLinks) -> Links:
    of_op = [message for message in measured.timed if message.op == op]
    host, net = (_line([message for message in of_op if message.group == group]) for group in (HOST, NET))
    return Links(measured.ranks_per_host, host, net)


def _line(messages: Sequence[TimedMessage]) -> Link | None:
    """Return the bandwidth and the latency that fit these messages; None without a message."""
    if not messages:
        return None
    amounts = [message.bytes_over_link for message in messages]
    durations = [message.seconds for message in messages]
    weights = [1 / duration**2 for duration in durations]  # so that errors count relative to the duration
    mean_bytes = fmean(amounts, weights)
    mean_seconds = fmean(durations, weights)
    byte_deviations = [amount - mean_bytes for amount in amounts]
    second_deviations = [duration - mean_seconds for duration in durations]
    variance = fmean([deviation**2 for deviation in byte_deviations], weights)
    seconds_per_byte = fmean(map(mul, byte_deviations, second_deviations), weights) / variance if variance else 0.0
    latency = mean_seconds - seconds_per_byte * mean_bytes
    if seconds_per_byte <= 0 or latency < 0:  # a single size, or noise: assume no latency
        return Link(sum(amounts) / sum(durations))
    return Link(1 / seconds_per_byte, latency)
