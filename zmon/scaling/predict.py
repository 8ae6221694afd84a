"""Predict a step on a number of ranks from the work of a rank, the bytes that ranks exchange, and the speed of links.

The functions are pure. Times are in seconds, sizes in bytes. The formulas are those by which nccl-tests turns times
into bus bandwidths (see its doc/PERFORMANCE.md). With p ranks, an all-to-all moves the share (p-1)/p of the bytes that
a rank sends, and an all-reduce 2(p-1)/p. Links within a host and between hosts are separate. An all-to-all uses both at
once and takes as long as the slower of the two. An all-reduce, reduce-scatter or all-gather exchanges within the host
first. Then each rank exchanges its part between hosts. A message adds its latency.

All ranks wait for the slowest of p ranks. If the self times have a normal distribution, order statistics (Blom 1958)
give the distance between the slowest rank and the median rank. This distance grows with p. Ranks that share too few
processors take turns, both in computing and in exchanging. If n ranks share a processor, the step takes n times as
long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from statistics import NormalDist

from zmon.schema.unknown import Unknown

# The share of the sent bytes that passes over a rank's links, with p ranks: the bus factors of nccl-tests. The ops of
# AT_ONCE are computed from the ranks of each host.
_BUS_FACTORS = {
    "all_reduce": lambda p: 2 * (p - 1) / p,
    "reduce_scatter": lambda p: (p - 1) / p,
    "all_gather": lambda p: (p - 1) / p,  # share of the bytes of all ranks together
}
AT_ONCE = ("all_to_all", "send", "recv")  # ops that use links within and between hosts at the same time


@dataclass(frozen=True)
class Link:
    """The speed of a rank's link for one op, in one direction."""

    bytes_per_second: float  # infinite: a transfer takes no time beyond the latency
    latency_seconds: float = 0.0  # time of a collective without data

    def seconds(self, num_bytes: float) -> float:
        """Return the time in which the link carries these bytes."""
        return self.latency_seconds + num_bytes / self.bytes_per_second


@dataclass(frozen=True)
class Links:
    """The links of a rank: to ranks of the same host (`host`) and of other hosts (`net`). None: unknown."""

    ranks_per_host: int
    host: Link | None
    net: Link | None  # if `host` is unknown, it includes transfers within a host


@dataclass(frozen=True)
class Exchange:
    """The bytes that a rank sends in one op per step."""

    fixed_bytes: float = 0.0
    sample_bytes: float = 0.0  # additional bytes for each of the rank's samples
    calls: float = 1.0  # collectives per step
    exposed: float = 1.0  # share of its time that computation does not hide; above 1: slower than when measured alone


@dataclass(frozen=True)
class Work:
    """The work of one rank in a step."""

    sample_seconds: float  # self time for each sample
    fixed_seconds: float  # self time that does not depend on samples: kernel launches, the dense part of the optimizer
    exchanges: Mapping[str, Exchange] = field(default_factory=dict)  # op → exchange
    spread: float = 0.0  # standard deviation of the ranks' self times, relative to their self time
    ranks_per_host: int = 1
    # Processors for ranks that compute on CPUs; None: each rank has its own device.
    processors_per_host: int | None = None


@dataclass(frozen=True)
class PredictedStep:
    """A predicted step with its time categories."""

    ranks: int
    samples: int  # samples of all ranks
    self_seconds: float  # self time of the median rank
    imbalance_seconds: float
    exposed_seconds: dict[str, float]  # op → seconds
    ranks_per_processor: float  # the factor by which all times are longer, because ranks share processors

    @property
    def seconds(self) -> float:
        return self.self_seconds + self.imbalance_seconds + sum(self.exposed_seconds.values())

    @property
    def samples_per_second(self) -> float:
        return self.samples / self.seconds


def predict(work: Work, links: Mapping[str, Links], ranks: int, samples: int) -> PredictedStep | Unknown:
    """Return the step in which all ranks process these samples; Unknown if a link that it needs was not measured.

    `links` is by op.
    """
    rank_samples = samples / ranks
    slowdown = ranks_per_processor(ranks, work.ranks_per_host, work.processors_per_host)
    self_seconds = slowdown * (work.fixed_seconds + work.sample_seconds * rank_samples)
    exposed = {}
    for op, exchange in work.exchanges.items():
        num_bytes = (exchange.fixed_bytes + exchange.sample_bytes * rank_samples) / exchange.calls
        seconds = op_seconds(op, num_bytes, ranks, links[op]) if exchange.exposed else 0.0
        if seconds is None:
            kind = "between hosts" if ranks > links[op].ranks_per_host else "within a host"
            return Unknown(f"the speed of {op} {kind} was not measured")
        exposed[op] = slowdown * exchange.calls * seconds * exchange.exposed
    imbalance = self_seconds * work.spread * slowest_deviations(ranks)
    return PredictedStep(ranks, samples, self_seconds, imbalance, exposed, slowdown)


def op_seconds(op: str, num_bytes: float, ranks: int, links: Links) -> float | None:
    """Return the time of one collective in which each rank sends `num_bytes`; None if it needs an unknown link."""
    if ranks == 1:
        return 0.0
    host_bytes, net_bytes = bytes_over_links(op, num_bytes, ranks, links.ranks_per_host)
    hosts = ceil(ranks / links.ranks_per_host)
    if (hosts > 1 and links.net is None) or (hosts == 1 and links.host is None):
        return None
    host_seconds = links.host.seconds(host_bytes) if links.host and links.ranks_per_host > 1 else 0.0
    net_seconds = links.net.seconds(net_bytes) if links.net and hosts > 1 else 0.0
    return max(host_seconds, net_seconds) if op in AT_ONCE else host_seconds + net_seconds


def bytes_over_links(op: str, num_bytes: float, ranks: int, ranks_per_host: int) -> tuple[float, float]:
    """Return the most bytes that a rank sends within its host, and the most that a rank sends to other hosts."""
    host_ranks = min(ranks, ranks_per_host)
    hosts = ceil(ranks / ranks_per_host)
    if op in AT_ONCE:
        smallest = ranks - host_ranks * (hosts - 1)  # ranks of the smallest host: they send most to other hosts
        return num_bytes * (host_ranks - 1) / ranks, (num_bytes * (ranks - smallest) / ranks if hosts > 1 else 0.0)
    if op not in _BUS_FACTORS:
        return (num_bytes if host_ranks > 1 else 0.0), (num_bytes if hosts > 1 else 0.0)  # each link carries all bytes
    total_bytes = num_bytes * ranks if op == "all_gather" else num_bytes
    return total_bytes * _BUS_FACTORS[op](host_ranks), total_bytes / host_ranks * _BUS_FACTORS[op](hosts)


def ranks_per_processor(ranks: int, ranks_per_host: int, processors_per_host: int | None) -> float:
    """Return the number of ranks that take turns on one processor; 1 if each rank has its own processor."""
    return max(1.0, min(ranks, ranks_per_host) / processors_per_host) if processors_per_host else 1.0


def slowest_deviations(ranks: int) -> float:
    """Return how far the slowest rank is expected to be from the median rank (of two, the faster), in deviations."""
    return _order_statistic(ranks, ranks) - _order_statistic((ranks - 1) // 2 + 1, ranks) if ranks > 1 else 0.0


def _order_statistic(position: int, size: int) -> float:
    """Return the expected value at a position of a sorted sample of a standard normal distribution (Blom 1958)."""
    return NormalDist().inv_cdf((position - 0.375) / (size + 0.25))
