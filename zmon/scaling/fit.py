"""Fit a model of a step to recorded sizes: the self time of a rank, and the speed of the exchanges between ranks.

Pure. Self time is a straight line over the samples of a rank. If the largest size was recorded with two batches, the
line uses that size alone, because at smaller sizes fewer ranks share caches, memory bandwidth and processors. The speed
of an exchange comes from its exposed time, and therefore includes the effect of what hides it. If the links were
measured by themselves (`zmon bench-comm`), their speed is used as it is. The exposed time of the steps then gives the
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

_MIN_RATIO = 1.1  # of the largest to the smallest x; closer ones leave the slope to noise


@dataclass(frozen=True)
class Model:
    """The model of the jobs of one name."""

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
    """Return the model that fits these points, or the reason why they do not determine a model.

    `ops` are the collectives; time categories other than these and the imbalance are self time. `measured` has the
    links that were measured by themselves, by op. `ranks_per_host` None: the largest recorded number.
    """
    points = [point for point in points if point.causes]
    multi_rank = [point for point in points if point.ranks > 1]
    if not multi_rank:
        return Unknown("no run of several ranks was recorded with its time categories")
    most_ranks = max(point.ranks for point in multi_rank)
    largest = [point for point in multi_rank if point.ranks == most_ranks]
    per_host = ranks_per_host or max(map(_per_host, multi_rank))
    processors = next((point.processors_per_host for point in [*largest, *points] if point.processors_per_host), None)
    times = _UnsharedTimes(ops, processors)
    self_time_points = largest if _samples_differ(largest) else points
    # The largest size alone, unless it has a single batch and other sizes have other ones.
    exchange_points = multi_rank if _samples_differ(multi_rank) and not _samples_differ(largest) else largest
    exchanges = {}
    links = {}
    for op in sorted({op for point in multi_rank for op in point.causes if op in ops}):
        exposed = [(point, times.of_cause(point, op)) for point in multi_rank]
        takes_time = any(seconds for _, seconds in exposed)
        has_bytes = any(_sent_bytes(op, point) for point in multi_rank)
        if op != "barrier" and takes_time and not has_bytes:
            return Unknown(f"the bytes that {op} moves were not recorded")
        exchanges[op] = _exchange(op, exchange_points)
        if measured and op in measured:
            links[op] = replace(measured[op], ranks_per_host=per_host)
            exchanges[op] = replace(exchanges[op], exposed=_exposed_share(op, exposed, links[op]))
        else:
            links[op] = _links(op, exposed, per_host)
    sample_seconds, fixed_seconds = _line(
        [*map(_rank_samples, self_time_points)], [*map(times.self_time, self_time_points)]
    )
    return Model(Work(sample_seconds, fixed_seconds, exchanges, _spread(largest, times), per_host, processors), links)


@dataclass(frozen=True)
class _UnsharedTimes:
    """The times of a recorded step, in seconds, as they would be if each rank had its own processor."""

    ops: Sequence[str]
    processors_per_host: int | None

    def of_cause(self, point: Point, cause: str) -> float:
        """Return the time of one time category; 0 if the step has no time of it."""
        return self._unshared(point, point.causes.get(cause, 0.0))

    def self_time(self, point: Point) -> float:
        """Return the time of all phases together."""
        return self._unshared(point, sum(s for cause, s in point.causes.items() if cause not in (*self.ops, IMBALANCE)))

    def _unshared(self, point: Point, seconds: float) -> float:
        return seconds / ranks_per_processor(point.ranks, _per_host(point), self.processors_per_host)


def _spread(points: Sequence[Point], times: _UnsharedTimes) -> float:
    """Return the standard deviation of the ranks' self times, relative to their self time; 0 without any self time.

    The imbalance of a step is the distance between its slowest rank and its middle one. Order statistics give this
    distance in deviations for as many ranks. The quotient is the deviation; the result is its mean over the points.
    """
    spreads = [
        times.of_cause(point, IMBALANCE) / times.self_time(point) / slowest_deviations(point.ranks)
        for point in points
        if times.self_time(point)
    ]
    return fmean(spreads) if spreads else 0.0


def _exchange(op: str, points: Sequence[Point]) -> Exchange:
    """Return the bytes that a rank sends in one op, as a line over its samples."""
    sample_bytes, fixed_bytes = _line([*map(_rank_samples, points)], [_sent_bytes(op, point) for point in points])
    return Exchange(fixed_bytes, sample_bytes)


def _rank_samples(point: Point) -> float:
    return point.samples / point.ranks


def _per_host(point: Point) -> int:
    """Return the number of ranks on a host; all of them, if the point does not have it."""
    return min(point.ranks_per_host or point.ranks, point.ranks)


def _samples_differ(points: Sequence[Point]) -> bool:
    return _differ([*map(_rank_samples, points)])


def _sent_bytes(op: str, point: Point) -> float:
    return point.sent_bytes.get(op, 0.0)


def _exposed_share(op: str, exposed: Sequence[tuple[Point, float]], links: Links) -> float:
    """Return the mean share of an op's time that nothing hides, given its exposed seconds; 1 if no time is known."""
    op_times = [
        op_seconds(op, _sent_bytes(op, point), point.ranks, replace(links, ranks_per_host=_per_host(point)))
        for point, _ in exposed
    ]
    shares = [seconds / op_time for (_, seconds), op_time in zip(exposed, op_times, strict=True) if op_time]
    return fmean(shares) if shares else 1.0


def _links(op: str, exposed: Sequence[tuple[Point, float]], per_host: int) -> Links:
    """Return the links that explain the exposed seconds of each point.

    Points on one host give the link within a host. The remaining time of the others gives the link between hosts.
    """
    host = _link([(_bytes(op, point)[0], seconds) for point, seconds in exposed if point.ranks == _per_host(point)])
    transfers_between_hosts = []
    for point, seconds in exposed:
        if point.ranks > _per_host(point):
            within, between = _bytes(op, point)
            host_seconds = host.seconds(within) if host and op not in AT_ONCE and _per_host(point) > 1 else 0.0
            transfers_between_hosts.append((between, max(0.0, seconds - host_seconds)))
    return Links(per_host, host, _link(transfers_between_hosts))


def _bytes(op: str, point: Point) -> tuple[float, float]:
    """Return the bytes of an op over a rank's links within its host, and to other hosts."""
    return bytes_over_links(op, _sent_bytes(op, point), point.ranks, _per_host(point))


def _link(transfers: Sequence[tuple[float, float]]) -> Link | None:
    """Return the link that explains these transfers, pairs of bytes and seconds; None without a transfer."""
    if not transfers:
        return None
    amounts = [num_bytes for num_bytes, _ in transfers]
    seconds = [s for _, s in transfers]
    if not sum(amounts) or not sum(seconds):  # a barrier, which has no bytes; or all of it was hidden
        return Link(float("inf"), fmean(seconds))
    slope, latency = _line(amounts, seconds)
    return Link(1 / slope if slope else float("inf"), latency)


def _line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line, neither below 0; all x about equal: through the origin."""
    through_origin = sum(x * y for x, y in zip(xs, ys, strict=True)) / sum(x * x for x in xs) if any(xs) else 0.0
    if not _differ(xs):
        return through_origin, (0.0 if any(xs) else fmean(ys))
    slope, intercept = linear_regression(xs, ys)
    if slope < 0:
        return 0.0, fmean(ys)
    return (through_origin, 0.0) if intercept < 0 else (slope, intercept)


def _differ(amounts: Sequence[float]) -> bool:
    return max(amounts) > _MIN_RATIO * min(amounts)
