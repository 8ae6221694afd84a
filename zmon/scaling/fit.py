"""What of a step is its ranks' own, and how fast their exchanges are: told from what steps took at some sizes.

Pure. Own times are a line over a rank's samples. Where the largest size was measured with two batches they are told
from it alone, for smaller ones leave caches, memory bandwidth and processors idle that ranks beside each other share.
How fast an exchange is, is what it exposed of itself (so what hides it is in that), or, where the links were measured
by themselves (`zmon bench-comm`), how they are, and the part of it that nothing hides is what the steps tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, linear_regression

from zmon.scaling.predict import (
    AT_ONCE,
    Exchange,
    Link,
    Links,
    Prediction,
    Work,
    ahead,
    op_seconds,
    passing,
    predict,
    turns,
)
from zmon.schema.curve import IMBALANCE, Point
from zmon.schema.unknown import Unknown

_APART = 1.1  # amounts that differ less make no line


@dataclass(frozen=True)
class Model:
    """Of one kind of job."""

    work: Work
    links: Mapping[str, Links]  # by op

    def at(self, ranks: int, samples: int) -> Prediction | Unknown:
        """A step at that size; else why nobody can tell."""
        return predict(self.work, self.links, ranks, samples)


def fit(
    points: Sequence[Point],
    ops: Sequence[str],
    measured: Mapping[str, Links] | None = None,
    ranks_per_host: int | None = None,
) -> Model | Unknown:
    """The model that these sizes make; else why there is none.

    `measured`: links by op, as they are alone. `ranks_per_host`: that a host takes; else as many as one was seen with.
    """
    told = [p for p in points if p.causes]
    several = [p for p in told if p.ranks > 1]
    if not several:
        return Unknown("it takes a run of several ranks of which is known where its time went")
    per_host = ranks_per_host or max(map(_per_host, several))
    largest = [p for p in several if p.ranks == max(p.ranks for p in several)]
    processors = next((p.processors_per_host for p in [*largest, *told] if p.processors_per_host), None)

    def alone(point: Point, seconds: float) -> float:
        """As it is where ranks take no turns."""
        return seconds / turns(point.ranks, _per_host(point), processors)

    def own(point: Point) -> float:
        return alone(point, sum(s for cause, s in point.causes.items() if cause not in (*ops, IMBALANCE)))

    basis = next((part for part in (largest, told) if _differ([*map(_mine, part)])), told)
    sample_seconds, fixed_seconds = _line([*map(_mine, basis)], [*map(own, basis)])
    spreads = [alone(p, p.causes.get(IMBALANCE, 0.0)) / own(p) / ahead(p.ranks) for p in largest if own(p)]
    exchanges, links = {}, {}
    for op in sorted({op for p in several for op in p.causes if op in ops}):
        exchanges[op] = _exchange(op, next((p for p in (largest, several) if _differ([*map(_mine, p)])), largest))
        exposed = [(p, alone(p, p.causes.get(op, 0.0))) for p in several]
        if op != "barrier" and any(s for _, s in exposed) and not any(_handed_in(op, p) for p in several):
            return Unknown(f"nobody told how many bytes {op} moves")
        if measured and op in measured:
            links[op] = replace(measured[op], ranks_per_host=per_host)
            exchanges[op] = replace(exchanges[op], exposed=_exposed(op, exposed, links[op]))
        else:
            links[op] = _links(op, exposed, per_host)
    spread = fmean(spreads) if spreads else 0.0
    return Model(Work(sample_seconds, fixed_seconds, exchanges, spread, per_host, processors), links)


def _mine(point: Point) -> float:
    return point.samples / point.ranks


def _per_host(point: Point) -> int:
    return min(point.ranks_per_host or point.ranks, point.ranks)


def _exchange(op: str, points: Sequence[Point]) -> Exchange:
    """What a rank hands in: so much, and so much for each sample."""
    sample_bytes, fixed_bytes = _line([*map(_mine, points)], [_handed_in(op, p) for p in points])
    return Exchange(fixed_bytes, sample_bytes)


def _handed_in(op: str, point: Point) -> float:
    return point.sent_bytes.get(op, 0.0)


def _exposed(op: str, told: Sequence[tuple[Point, float]], links: Links) -> float:
    """The part of its time that nothing hides."""
    whole = [op_seconds(op, _handed_in(op, p), p.ranks, replace(links, ranks_per_host=_per_host(p))) for p, _ in told]
    parts = [seconds / alone for (_, seconds), alone in zip(told, whole, strict=True) if alone]
    return fmean(parts) if parts else 1.0


def _links(op: str, told: Sequence[tuple[Point, float]], per_host: int) -> Links:
    """As fast as makes what was exposed: within a host first, then between hosts by what is left."""
    at_home = [(_bytes(op, p)[0], seconds) for p, seconds in told if p.ranks == _per_host(p)]
    host = _link(at_home)
    beyond = []
    for point, seconds in told:
        if point.ranks > _per_host(point):
            within, between = _bytes(op, point)
            near = host.seconds(within) if host and op not in AT_ONCE and _per_host(point) > 1 else 0.0
            beyond.append((between, max(0.0, seconds - near)))
    return Links(per_host, host, _link(beyond))


def _bytes(op: str, point: Point) -> tuple[float, float]:
    return passing(op, _handed_in(op, point), point.ranks, _per_host(point))


def _link(told: Sequence[tuple[float, float]]) -> Link | None:
    """Of bytes and seconds. None: nobody used it."""
    if not told:
        return None
    amounts, seconds = [amount for amount, _ in told], [s for _, s in told]
    if not sum(amounts) or not sum(seconds):  # a barrier: it has no bytes; or all of it was hidden
        return Link(float("inf"), fmean(seconds))
    slope, latency = _line(amounts, seconds)
    return Link(1 / slope if slope else float("inf"), latency)


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Slope and intercept, neither of them below 0; through the origin where all is of one size."""
    through_origin = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs) if any(xs) else 0.0
    if not _differ(xs):
        return through_origin, (0.0 if any(xs) else fmean(ys))
    slope, intercept = linear_regression(xs, ys)
    if slope < 0:
        return 0.0, fmean(ys)
    return (through_origin, 0.0) if intercept < 0 else (slope, intercept)


def _differ(amounts: Sequence[float]) -> bool:
    return max(amounts) > _APART * min(amounts)
