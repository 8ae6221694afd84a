"""How long should a step take on so many ranks? From what a rank computes, what ranks exchange, how fast links are.

Pure. Seconds, bytes. The formulas are those by which nccl-tests turns times into bus bandwidths (doc/PERFORMANCE.md
there): of S bytes a rank hands in, an all-to-all moves (p - 1)/p and an all-reduce 2(p - 1)/p. Links within a host and
between hosts are told apart: an all-to-all uses both at once and takes as long as the slower share, an all-reduce goes
through the host first and then, each rank with its part, between hosts. A message adds its latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import linear_regression


@dataclass(frozen=True)
class Links:
    """What a rank's links carry, one direction."""

    ranks_per_host: int
    host_bytes_per_second: float  # to ranks of the same host
    net_bytes_per_second: float  # to ranks of other hosts
    latency_seconds: float = 0.0  # of a collective, whatever its size


@dataclass(frozen=True)
class Work:
    """A step of one rank."""

    sample_seconds: float  # of its own, for each sample
    fixed_seconds: float  # of its own, however few samples: launches, the optimizer's dense part
    all_to_all_bytes: float  # for each sample of its own, all exchanges of a step together
    all_reduce_bytes: float  # of a step
    all_to_alls: int = 2  # of a step: vectors, and their gradients
    hidden: Mapping[str, float] | None = None  # by op, the part of it that own work hides, 0 … 1; None: nothing

    def of(self, op: str) -> float:
        """What part of an op is hidden."""
        return (self.hidden or {}).get(op, 0.0)


@dataclass(frozen=True)
class Prediction:
    """A step on so many ranks, by where its time goes."""

    ranks: int
    samples: int  # of all ranks
    own_seconds: float
    exposed_seconds: dict[str, float]  # by op

    @property
    def seconds(self) -> float:
        """Of the step."""
        return self.own_seconds + sum(self.exposed_seconds.values())

    @property
    def samples_per_second(self) -> float:
        """Of all ranks."""
        return self.samples / self.seconds


def all_to_all_seconds(num_bytes: float, ranks: int, links: Links) -> float:
    """Of one exchange in which each rank hands in that many."""
    here, hosts = _hosts(ranks, links)
    if ranks == 1:
        return 0.0
    within = num_bytes * (here - 1) / ranks / links.host_bytes_per_second
    beyond = num_bytes * (ranks - here) / ranks / links.net_bytes_per_second if hosts > 1 else 0.0
    return max(within, beyond) + links.latency_seconds


def all_reduce_seconds(num_bytes: float, ranks: int, links: Links) -> float:
    """Of one sum over all ranks."""
    here, hosts = _hosts(ranks, links)
    if ranks == 1:
        return 0.0
    within = 2 * (here - 1) / here * num_bytes / links.host_bytes_per_second
    beyond = 2 * (hosts - 1) / hosts * num_bytes / here / links.net_bytes_per_second if hosts > 1 else 0.0
    return within + beyond + links.latency_seconds


def predict(work: Work, links: Links, ranks: int, samples: int) -> Prediction:
    """A step in which all ranks together take so many samples."""
    mine = samples / ranks
    exchange = all_to_all_seconds(work.all_to_all_bytes * mine / work.all_to_alls, ranks, links) * work.all_to_alls
    total = all_reduce_seconds(work.all_reduce_bytes, ranks, links)
    return Prediction(
        ranks=ranks,
        samples=samples,
        own_seconds=work.fixed_seconds + work.sample_seconds * mine,
        exposed_seconds={
            "all_to_all": exchange * (1 - work.of("all_to_all")),
            "all_reduce": total * (1 - work.of("all_reduce")),
        },
    )


def fitted(steps: Sequence[tuple[int, int, float]], work: Work, links: Links) -> Work:
    """The same with its own times as these steps say: ranks, samples of all of them, seconds.

    What the exchanges are predicted to take is taken off; the rest is a line over a rank's samples. Of one size alone
    nothing is fixed, for nobody can tell.
    """
    free = replace(work, sample_seconds=0.0, fixed_seconds=0.0)
    points = [(samples / ranks, s - predict(free, links, ranks, samples).seconds) for ranks, samples, s in steps]
    if len({mine for mine, _ in points}) == 1:
        return replace(free, sample_seconds=points[0][1] / points[0][0])
    slope, intercept = linear_regression(*zip(*points, strict=True))
    return replace(free, sample_seconds=slope, fixed_seconds=intercept)


def _hosts(ranks: int, links: Links) -> tuple[int, int]:
    """Ranks of a host, and hosts."""
    return min(ranks, links.ranks_per_host), ceil(ranks / links.ranks_per_host)
