"""The scaling curve of a kind of job, and the efficiency of a job relative to it.

Pure. A curve has one recorded point for each number of ranks and of samples per step. The efficiency of a job is its
samples per second and rank, divided by those of a reference point. A job scales weakly from a point with as many
samples per rank (Gustafson's law), and strongly from a point with as many samples in all (Amdahl's law). The reference
is the point with the fewest ranks from which it scales weakly, else strongly. Without such a point the efficiency is
unknown, and the reason is part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from zmon.schema.unknown import Unknown

MAX_DIFFERENCE = 0.1  # relative difference of samples per step; steps that differ more do not compare
WEAK, STRONG = "weak", "strong"
IMBALANCE = "imbalance"  # the time category that is neither a phase nor an op
ON_PURPOSE = "zmon scaling"  # the recorder of points that a running job never replaces


@dataclass(frozen=True, slots=True)
class Point:
    """A step at one size, recorded once the job had settled."""

    ranks: int
    samples: int  # samples of all ranks in a step
    seconds: float  # duration of a step
    by: str  # id of the job from which it was recorded
    recorded: float  # unix seconds
    half_width_seconds: float | None = None  # confidence interval: `seconds` ± this value; None: not recorded
    causes: Mapping[str, float] = field(default_factory=dict)  # time categories; they sum to `seconds`; empty: unknown
    sent_bytes: Mapping[str, float] = field(default_factory=dict)  # op → bytes of one rank, including its own chunk
    ranks_per_host: int | None = None
    # Processors for ranks that compute on CPUs; None: each rank has its own device.
    processors_per_host: int | None = None

    @property
    def rate(self) -> float:
        """Samples per second and rank."""
        return self.samples / self.ranks / self.seconds


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The scaling efficiency of a job."""

    ratio: float
    scaling: str  # WEAK or STRONG
    name: str  # name of the curve
    reference: Point  # the point that counts as 1.0
    recorded: float | None  # the efficiency recorded at this size; None: nothing was recorded at this size


@dataclass(frozen=True, slots=True)
class EfficiencySample:
    """The efficiency of a job at one moment, if something was recorded at its size."""

    time: float  # unix seconds on the hub's host
    ratio: float
    recorded: float  # the recorded efficiency at this size; never 0
    scaling: str  # WEAK or STRONG
    name: str  # name of the curve


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """The scaling curve of the jobs of one name."""

    name: str
    points: Sequence[Point] = ()

    def points_of_size(self, ranks: int, samples: int) -> list[Point]:
        """Return the points with this number of ranks and about this number of samples."""
        return [p for p in self.points if p.ranks == ranks and are_similar(p.samples, samples)]

    def nearest_point(self, ranks: int, samples: int) -> Point | None:
        """Return the point of this size with the nearest number of samples; None if there is none."""
        return min(self.points_of_size(ranks, samples), key=lambda p: abs(p.samples - samples), default=None)

    def reference(self, ranks: int, samples: int) -> tuple[str, Point] | None:
        """Return how a step of this size scales (WEAK or STRONG), and the point that it scales from.

        Weak scaling is preferred to strong scaling, then the point with the fewest ranks.
        """
        for scaling in (WEAK, STRONG):
            points = [p for p in self.points if p.ranks <= ranks and _scaling(p, ranks, samples) == scaling]
            if points:
                return scaling, min(points, key=attrgetter("ranks"))
        return None

    def efficiency(self, ranks: int, samples: int, samples_per_second: float) -> Efficiency | Unknown:
        """Return the efficiency of a job of this size and speed, or the reason why it is unknown."""
        related = self.reference(ranks, samples)
        if related is None:
            sizes = ", ".join(f"{p.ranks} × {p.samples / p.ranks:,.0f}" for p in self.points)
            return Unknown(
                f"no recorded size of {self.name} has as many samples, per rank or in all,"
                f" as {ranks} ranks × {samples / ranks:,.0f} samples (recorded: {sizes or 'nothing'})"
            )
        scaling, reference = related
        point = self.nearest_point(ranks, samples)
        return Efficiency(
            ratio=samples_per_second / ranks / reference.rate,
            scaling=scaling,
            name=self.name,
            reference=reference,
            recorded=point.rate / reference.rate if point else None,
        )

    def with_point(self, point: Point) -> ScalingCurve:
        """Return the curve with this point, which replaces the points of the same size."""
        replaced = self.points_of_size(point.ranks, point.samples)
        return ScalingCurve(self.name, in_order([*(p for p in self.points if p not in replaced), point]))


def in_order(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return the points with the smallest size first."""
    return tuple(sorted(points, key=lambda p: (p.ranks, p.samples)))


def are_similar(first: float, second: float) -> bool:
    """Return True if steps of these numbers of samples compare."""
    return abs(first - second) <= MAX_DIFFERENCE * max(first, second)


def _scaling(point: Point, ranks: int, samples: int) -> str | None:
    """Return how a step of this size scales from a point; None if the samples differ both per rank and in all."""
    if are_similar(samples / ranks, point.samples / point.ranks):
        return WEAK
    return STRONG if are_similar(samples, point.samples) else None
