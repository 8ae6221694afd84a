"""Is this job as fast as jobs of its name were, and what do more ranks make of it?

Pure. A curve is what was recorded of one kind of job: a point for each number of ranks and of samples a step. The
efficiency of a job is its samples per second and rank ÷ those of the point with the fewest ranks that it scales from,
weakly (as many samples a rank) or strongly (as many in all), in the sense of Gustafson's and of Amdahl's law. Where
neither holds, or nothing was recorded, it is unknown, and why is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zmon.schema.unknown import Unknown

ALIKE = 0.1  # relative difference of samples a step, as of a job's steps among themselves
WEAK, STRONG = "weak", "strong"
IMBALANCE = "imbalance"  # the cause that is no phase and no op
ON_PURPOSE = "zmon scaling"  # who recorded a point that no running job replaces


@dataclass(frozen=True, slots=True)
class Point:
    """What a step was like at one size, once it had settled."""

    ranks: int
    samples: int  # of all ranks, a step
    seconds: float  # of a step
    by: str  # the id of the job that it was seen on
    recorded: float  # unix seconds
    half_width_seconds: float | None = None  # of the interval around `seconds`; None: nobody told
    causes: Mapping[str, float] = field(default_factory=dict)  # what they sum to is `seconds`; none: nobody told
    sent_bytes: Mapping[str, float] = field(default_factory=dict)  # by op, of a rank, own chunk included
    ranks_per_host: int | None = None
    processors_per_host: int | None = None  # of ranks that compute on them; None: they have devices of their own

    @property
    def rate(self) -> float:
        """Samples per second and rank."""
        return self.samples / self.ranks / self.seconds


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a job reaches of what it scales from."""

    ratio: float
    scaling: str  # WEAK or STRONG
    name: str  # of the curve
    reference: Point  # what 1.0 is
    recorded: float | None  # what was recorded at this size; None: this size was not


@dataclass(frozen=True, slots=True)
class EfficiencySample:
    """What a job reached at one moment, where something was recorded at its size."""

    time: float  # unix seconds on the hub's host
    ratio: float  # of what 1.0 is
    recorded: float  # the same, as recorded; never 0
    scaling: str  # WEAK or STRONG
    name: str  # of the curve


@dataclass(frozen=True, slots=True)
class Curve:
    """Of the jobs of one name."""

    name: str
    points: Sequence[Point] = ()

    def alike(self, ranks: int, samples: int) -> list[Point]:
        """What was recorded at this size, or about so."""
        return [p for p in self.points if p.ranks == ranks and alike(p.samples, samples)]

    def at(self, ranks: int, samples: int) -> Point | None:
        """Of these the nearest."""
        return min(self.alike(ranks, samples), key=lambda p: abs(p.samples - samples), default=None)

    def reference(self, ranks: int, samples: int) -> tuple[str, Point] | None:
        """What a step of so many ranks and samples scales from, and how: the fewest ranks, weakly if that can be."""
        related = [(scaling, p) for p in self.points if p.ranks <= ranks and (scaling := _scaling(p, ranks, samples))]
        return min(related, key=lambda one: (one[0] != WEAK, one[1].ranks), default=None)

    def efficiency(self, ranks: int, samples: int, samples_per_second: float) -> Efficiency | Unknown:
        """Of a job of that size that is this fast; else why nobody can tell."""
        found = self.reference(ranks, samples)
        if found is None:
            sizes = ", ".join(f"{p.ranks} × {p.samples / p.ranks:,.0f}" for p in self.points)
            return Unknown(
                f"{ranks} ranks × {samples / ranks:,.0f} samples scale from nothing that was recorded of {self.name}"
                f" ({sizes or 'nothing was'})"
            )
        scaling, reference = found
        known = self.at(ranks, samples)
        return Efficiency(
            ratio=samples_per_second / ranks / reference.rate,
            scaling=scaling,
            name=self.name,
            reference=reference,
            recorded=known.rate / reference.rate if known else None,
        )

    def with_point(self, point: Point) -> Curve:
        """This one in place of what was recorded at its size."""
        others = [p for p in self.points if p not in self.alike(point.ranks, point.samples)]
        return Curve(self.name, in_order([*others, point]))


def in_order(points: Iterable[Point]) -> tuple[Point, ...]:
    """The smallest first."""
    return tuple(sorted(points, key=lambda p: (p.ranks, p.samples)))


def alike(samples: float, others: float) -> bool:
    """Whether that many samples make steps that compare."""
    return abs(samples - others) <= ALIKE * max(samples, others)


def _scaling(point: Point, ranks: int, samples: int) -> str | None:
    if alike(samples / ranks, point.samples / point.ranks):
        return WEAK
    return STRONG if alike(samples, point.samples) else None
