"""How long should a step take on so many ranks? From what a rank computes, what ranks exchange, how fast links are.

Pure. Seconds, bytes. The formulas are those by which nccl-tests turns times into bus bandwidths (doc/PERFORMANCE.md
there): of S bytes a rank hands in, an all-to-all moves (p - 1)/p and an all-reduce 2(p - 1)/p. Links within a host and
between hosts are told apart: an all-to-all uses both at once and takes as long as the slower share, a sum goes through
the host first and then, each rank with its part, between hosts. A message adds its latency.

All wait for the slowest of p ranks. If their own times spread by chance alone, like a normal distribution, it is ahead
of the middle one by what order statistics say (Blom 1958), which grows with p. Ranks that share too few processors
take turns, in what they compute and in what they exchange: then a step takes as many times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from statistics import NormalDist

from zmon.schema.unknown import Unknown

# What of the bytes handed in passes a rank's links, with p ranks: the bus factors of nccl-tests.
_PASSES = {
    "all_to_all": lambda p: (p - 1) / p,
    "all_reduce": lambda p: 2 * (p - 1) / p,
    "reduce_scatter": lambda p: (p - 1) / p,
    "all_gather": lambda p: (p - 1) / p,  # of what all hand in together
}
AT_ONCE = ("all_to_all", "send", "recv")  # uses links within and between hosts at the same time


@dataclass(frozen=True)
class Link:
    """What of one op passes from a rank to others, one direction."""

    bytes_per_second: float  # infinite: it takes no time beyond its latency
    latency_seconds: float = 0.0  # of a collective, whatever its size

    def seconds(self, num_bytes: float) -> float:
        """Of so many."""
        return self.latency_seconds + num_bytes / self.bytes_per_second


@dataclass(frozen=True)
class Links:
    """To ranks of the same host, and to those of others. None: nobody knows."""

    ranks_per_host: int
    host: Link | None
    net: Link | None  # where `host` is not known, it has what passes within a host in it


@dataclass(frozen=True)
class Exchange:
    """What a rank hands in to one op in a step."""

    fixed_bytes: float = 0.0
    sample_bytes: float = 0.0  # and for each sample of its own
    calls: float = 1.0
    exposed: float = 1.0  # what of its time nothing hides, 0 … 1; more than 1: it takes longer than alone


@dataclass(frozen=True)
class Work:
    """A step of one rank."""

    sample_seconds: float  # of its own, for each sample
    fixed_seconds: float  # of its own, however few samples: launches, the optimizer's dense part
    exchanges: Mapping[str, Exchange] = field(default_factory=dict)  # by op
    spread: float = 0.0  # standard deviation of ranks' own times, of their own time
    ranks_per_host: int = 1
    processors_per_host: int | None = None  # that ranks compute on; None: each has a device of its own


@dataclass(frozen=True)
class Prediction:
    """A step on so many ranks, by where its time goes."""

    ranks: int
    samples: int  # of all ranks
    own_seconds: float  # of the median rank
    imbalance_seconds: float
    exposed_seconds: dict[str, float]  # by op
    turns: float  # how many times as long all of it takes, because ranks share processors

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.own_seconds + self.imbalance_seconds + sum(self.exposed_seconds.values())

    @property
    def samples_per_second(self) -> float:
        """Of all ranks."""
        return self.samples / self.seconds


def predict(work: Work, links: Mapping[str, Links], ranks: int, samples: int) -> Prediction | Unknown:
    """A step in which all ranks together take so many samples; else why nobody can tell. `links` are by op."""
    mine, shared = samples / ranks, turns(ranks, work.ranks_per_host, work.processors_per_host)
    own = shared * (work.fixed_seconds + work.sample_seconds * mine)
    exposed = {}
    for op, exchange in work.exchanges.items():
        num_bytes = (exchange.fixed_bytes + exchange.sample_bytes * mine) / exchange.calls
        seconds = op_seconds(op, num_bytes, ranks, links[op]) if exchange.exposed else 0.0
        if seconds is None:
            known = ranks > links[op].ranks_per_host
            return Unknown(f"nobody has measured how fast {op} is {'between hosts' if known else 'within a host'}")
        exposed[op] = shared * exchange.calls * seconds * exchange.exposed
    return Prediction(ranks, samples, own, own * work.spread * ahead(ranks), exposed, shared)


def op_seconds(op: str, num_bytes: float, ranks: int, links: Links) -> float | None:
    """Of one collective in which each rank hands in that many; None: it takes a link that nobody knows."""
    if ranks == 1:
        return 0.0
    within, beyond = passing(op, num_bytes, ranks, links.ranks_per_host)
    hosts = ceil(ranks / links.ranks_per_host)
    if (hosts > 1 and links.net is None) or (hosts == 1 and links.host is None):
        return None
    near = links.host.seconds(within) if links.host and links.ranks_per_host > 1 else 0.0
    far = links.net.seconds(beyond) if links.net and hosts > 1 else 0.0
    return max(near, far) if op in AT_ONCE else near + far


def passing(op: str, num_bytes: float, ranks: int, ranks_per_host: int) -> tuple[float, float]:
    """Bytes that pass a rank's links within its host, and to other hosts, where that is most."""
    here, hosts = min(ranks, ranks_per_host), ceil(ranks / ranks_per_host)
    if op in AT_ONCE:
        least = ranks - here * (hosts - 1)  # of the host with the fewest ranks, which send most of theirs away
        return num_bytes * (here - 1) / ranks, (num_bytes * (ranks - least) / ranks if hosts > 1 else 0.0)
    if op not in _PASSES:
        return (num_bytes if here > 1 else 0.0), (num_bytes if hosts > 1 else 0.0)
    whole = num_bytes * ranks if op == "all_gather" else num_bytes
    return whole * _PASSES[op](here), whole / here * _PASSES[op](hosts)


def turns(ranks: int, ranks_per_host: int, processors_per_host: int | None) -> float:
    """How many ranks take turns on a processor; 1: each has its own."""
    return max(1.0, min(ranks, ranks_per_host) / processors_per_host) if processors_per_host else 1.0


def ahead(ranks: int) -> float:
    """By how many standard deviations the slowest is expected to be beyond the middle one (the lower of two)."""
    return _expected(ranks, ranks) - _expected((ranks - 1) // 2 + 1, ranks) if ranks > 1 else 0.0


def _expected(place: int, of: int) -> float:
    return NormalDist().inv_cdf((place - 0.375) / (of + 0.25))
