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

from zmon.curve import Point
from zmon.predict import AT_ONCE, Exchange, Links, Prediction, Work, ahead, op_seconds, passing, predict, turns

_APART = 1.1  # amounts that differ less make no line


@dataclass(frozen=True)
class Model:
    """Of one kind of job."""

    work: Work
    links: Mapping[str, Links]  # by op

    def at(self, ranks: int, samples: int) -> Prediction | str:
        """A step at that size; else why nobody can tell."""
        return predict(self.work, self.links, ranks, samples)


def fit(
    points: Sequence[Point],
    ops: Sequence[str],
    measured: Mapping[str, Links] | None = None,
    ranks_per_host: int | None = None,
) -> Model | str:
    """The model that these sizes make; else why there is none.

    `measured`: links by op, as they are alone. `ranks_per_host`: that a host takes; else as many as one was seen with.
    """
    told = [p for p in points if p.causes]
    several = [p for p in told if p.ranks > 1]
    if not several:
        return "it takes a run of several ranks of which is known where its time went"
    largest = max(p.ranks for p in several)
    at_largest = [p for p in several if p.ranks == largest]
    per_host = ranks_per_host or max(p.ranks_per_host or p.ranks for p in several)
    processors = at_largest[0].processors_per_host
    nominal = {"": Links(per_host, None, None)}
    shared = {id(p): turns(p.ranks, processors, nominal) for p in told}

    def own(point: Point) -> float:
        spent = sum(s for cause, s in point.causes.items() if cause not in (*ops, "imbalance"))
        return spent / shared[id(point)]

    basis = at_largest if _differ([_mine(p) for p in at_largest]) else told
    sample_seconds, fixed_seconds = _line([_mine(p) for p in basis], [own(p) for p in basis])
    uneven = [p.causes.get("imbalance", 0.0) / shared[id(p)] / own(p) / ahead(p.ranks) for p in at_largest if own(p)]
    exchanges, links = {}, {}
    for op in sorted({op for p in several for op in p.causes if op in ops}):
        exposed = [p.causes.get(op, 0.0) / shared[id(p)] for p in several]
        sample_bytes, fixed_bytes = _line(
            [_mine(p) for p in at_largest], [p.sent_bytes.get(op, 0.0) for p in at_largest]
        )
        exchange = Exchange(fixed_bytes, sample_bytes)
        if measured and op in measured:
            alone = [op_seconds(op, p.sent_bytes.get(op, 0.0), p.ranks, measured[op]) for p in several]
            parts = [s / a for s, a in zip(exposed, alone, strict=True) if a]
            links[op], exchanges[op] = measured[op], replace(exchange, exposed=fmean(parts) if parts else 1.0)
        else:
            links[op], exchanges[op] = _links(op, several, exposed, per_host), exchange
    return Model(
        Work(sample_seconds, fixed_seconds, exchanges, fmean(uneven) if uneven else 0.0, processors),
        links or nominal,
    )


def _mine(point: Point) -> float:
    return point.samples / point.ranks


def _links(op: str, points: Sequence[Point], exposed: Sequence[float], per_host: int) -> Links:
    """As fast as makes what was exposed: within a host first, then between hosts by what is left."""
    at_home = [(p, s) for p, s in zip(points, exposed, strict=True) if p.ranks <= per_host]
    host, near = _rate([_bytes(op, p, per_host)[0] for p, _ in at_home], [s for _, s in at_home])
    beyond, left = [], []
    for point, seconds in zip(points, exposed, strict=True):
        if point.ranks > per_host:
            within, between = _bytes(op, point, per_host)
            beyond.append(between)
            left.append(seconds if op in AT_ONCE or not host else max(0.0, seconds - near - within / host))
    net, far = _rate(beyond, left)
    return Links(per_host, host, net, max(near, far))


def _bytes(op: str, point: Point, per_host: int) -> tuple[float, float]:
    return passing(op, point.sent_bytes.get(op, 0.0), point.ranks, per_host)


def _rate(amounts: Sequence[float], seconds: Sequence[float]) -> tuple[float | None, float]:
    """Bytes per second, and seconds of latency; None: nobody used these links."""
    if not amounts:
        return None, 0.0
    if not sum(amounts) or not sum(seconds):  # a barrier: it has no bytes; or all of it was hidden
        return float("inf"), fmean(seconds)
    slope, latency = _line(amounts, seconds)
    return (1 / slope if slope else float("inf")), latency


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
