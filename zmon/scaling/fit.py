"""Fits a model of a step to recorded sizes: the self time of a rank, and the speed of the exchanges between ranks.

Pure. Self time is a straight line over the samples of a rank. If the largest size was recorded with two batches, the
line uses that size alone, because at smaller sizes fewer ranks share caches, memory bandwidth and processors. The speed
of an exchange comes from its exposed time, and therefore includes the effect of what hides it. If the links were
measured by themselves (`zmon bench-comm`), their speed is used as it is, and the exposed time of the steps gives the
part of an exchange that nothing hides.
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
    PredictedStep,
    Work,
    bytes_over_links,
    op_seconds,
    predict,
    ranks_per_processor,
    slowest_deviations,
)
from zmon.schema.curve import IMBALANCE, Point
from zmon.schema.unknown import Unknown

_MIN_RATIO = 1.1  # amounts with a smaller ratio are too close for a line


@dataclass(frozen=True)
class Model:
    """The model of one kind of job."""

    work: Work
    links: Mapping[str, Links]  # op → links

    def predict(self, ranks: int, samples: int) -> PredictedStep | Unknown:
        """Return the predicted step at this size, or the reason why it is unknown."""
        return predict(self.work, self.links, ranks, samples)


def fit(
    points: Sequence[Point],
    ops: Sequence[str],
    measured: Mapping[str, Links] | None = None,
    ranks_per_host: int | None = None,
) -> Model | Unknown:
    """Return the model that fits these points, or the reason why there is none.

    `measured` has, by op, the links that were measured by themselves. `ranks_per_host` is the number of ranks on a
    host; None: the largest recorded number.
    """
    timed = [p for p in points if p.causes]
    several = [p for p in timed if p.ranks > 1]
    if not several:
        return Unknown("no run of several ranks was recorded with its time categories")
    per_host = ranks_per_host or max(map(_per_host, several))
    largest = [p for p in several if p.ranks == max(p.ranks for p in several)]
    processors = next((p.processors_per_host for p in [*largest, *timed] if p.processors_per_host), None)

    def unshared(point: Point, seconds: float) -> float:
        """Return the time as it would be if each rank had its own processor."""
        return seconds / ranks_per_processor(point.ranks, _per_host(point), processors)

    def self_seconds(point: Point) -> float:
        return unshared(point, sum(s for cause, s in point.causes.items() if cause not in (*ops, IMBALANCE)))

    basis = next((part for part in (largest, timed) if _differ([*map(_rank_samples, part)])), timed)
    sample_seconds, fixed_seconds = _line([*map(_rank_samples, basis)], [*map(self_seconds, basis)])
    spreads = [
        unshared(p, p.causes.get(IMBALANCE, 0.0)) / self_seconds(p) / slowest_deviations(p.ranks)
        for p in largest
        if self_seconds(p)
    ]
    exchanges, links = {}, {}
    for op in sorted({op for p in several for op in p.causes if op in ops}):
        basis = next((part for part in (largest, several) if _differ([*map(_rank_samples, part)])), largest)
        sample_bytes, fixed_bytes = _line([*map(_rank_samples, basis)], [_sent_bytes(op, p) for p in basis])
        exchanges[op] = Exchange(fixed_bytes, sample_bytes)
        exposed = [(p, unshared(p, p.causes.get(op, 0.0))) for p in several]
        if op != "barrier" and any(s for _, s in exposed) and not any(_sent_bytes(op, p) for p in several):
            return Unknown(f"the bytes that {op} moves were not recorded")
        if measured and op in measured:
            links[op] = replace(measured[op], ranks_per_host=per_host)
            exchanges[op] = replace(exchanges[op], exposed=_exposed_share(op, exposed, links[op]))
        else:
            links[op] = _links(op, exposed, per_host)
    spread = fmean(spreads) if spreads else 0.0
    return Model(Work(sample_seconds, fixed_seconds, exchanges, spread, per_host, processors), links)


def _rank_samples(point: Point) -> float:
    return point.samples / point.ranks


def _per_host(point: Point) -> int:
    return min(point.ranks_per_host or point.ranks, point.ranks)


def _sent_bytes(op: str, point: Point) -> float:
    return point.sent_bytes.get(op, 0.0)


def _exposed_share(op: str, exposed: Sequence[tuple[Point, float]], links: Links) -> float:
    """Return the share of the time of an op that nothing hides."""
    full = [
        op_seconds(op, _sent_bytes(op, p), p.ranks, replace(links, ranks_per_host=_per_host(p))) for p, _ in exposed
    ]
    shares = [seconds / whole for (_, seconds), whole in zip(exposed, full, strict=True) if whole]
    return fmean(shares) if shares else 1.0


def _links(op: str, exposed: Sequence[tuple[Point, float]], per_host: int) -> Links:
    """Return the links that explain the exposed times: within a host, then, from the remaining time, between hosts."""
    host = _link([(_bytes(op, p)[0], seconds) for p, seconds in exposed if p.ranks == _per_host(p)])
    beyond = []
    for point, seconds in exposed:
        if point.ranks > _per_host(point):
            within, between = _bytes(op, point)
            near = host.seconds(within) if host and op not in AT_ONCE and _per_host(point) > 1 else 0.0
            beyond.append((between, max(0.0, seconds - near)))
    return Links(per_host, host, _link(beyond))


def _bytes(op: str, point: Point) -> tuple[float, float]:
    return bytes_over_links(op, _sent_bytes(op, point), point.ranks, _per_host(point))


def _link(transfers: Sequence[tuple[float, float]]) -> Link | None:
    """Return the link that explains these pairs of bytes and seconds; None if there are none."""
    if not transfers:
        return None
    amounts, seconds = [amount for amount, _ in transfers], [s for _, s in transfers]
    if not sum(amounts) or not sum(seconds):  # a barrier, which has no bytes; or all of it was hidden
        return Link(float("inf"), fmean(seconds))
    slope, latency = _line(amounts, seconds)
    return Link(1 / slope if slope else float("inf"), latency)


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Return slope and intercept, neither below 0; the line goes through the origin if all x are about equal."""
    through_origin = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs) if any(xs) else 0.0
    if not _differ(xs):
        return through_origin, (0.0 if any(xs) else fmean(ys))
    slope, intercept = linear_regression(xs, ys)
    if slope < 0:
        return 0.0, fmean(ys)
    return (through_origin, 0.0) if intercept < 0 else (slope, intercept)


def _differ(amounts: Sequence[float]) -> bool:
    return max(amounts) > _MIN_RATIO * min(amounts)
