"""The result of each size: its efficiency, where it loses time, and what smaller sizes predicted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from zmon.scaling.fit import fit
from zmon.scaling.predict import Links
from zmon.schema.curve import Point, ScalingCurve
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown

_MIN_LOSS = 0.01  # share of a step; smaller losses are not reported


@dataclass(frozen=True)
class SizeResult:
    """The result of one size."""

    point: Point
    scaling: str  # kind of scaling from the smallest size: "weak", "strong", or "" if there is no reference
    ratio: float | None  # efficiency
    half_width: float | None  # half the width of the confidence interval of `ratio`
    lost: Mapping[str, float]  # share of the step by which each time category exceeds the reference, the largest first
    predicted_seconds: float | None  # step time predicted from the smaller sizes alone
    unpredicted: str = ""  # the reason if there is no prediction


def size_results(points: Sequence[Point], measured: Mapping[str, Links] | None = None) -> list[SizeResult]:
    """Return the result of each point, weak scaling before strong, the smallest size first."""
    curve = ScalingCurve("", points)
    largest = max((point.ranks for point in points), default=1)
    rows = [_result(curve, point, measured, largest) for point in points]
    return sorted(rows, key=lambda row: (row.scaling == "strong", row.point.ranks, row.point.samples))


def _result(curve: ScalingCurve, point: Point, measured: Mapping[str, Links] | None, largest: int) -> SizeResult:
    smaller = [other for other in curve.points if other.ranks < point.ranks]
    scaling, reference = ScalingCurve("", smaller).reference(point.ranks, point.samples) or ("", None)
    ratio = half_width = None
    if reference is not None:
        ratio = point.rate / reference.rate
        half_width = ratio * sqrt(
            sum(((compared.half_width_seconds or 0.0) / compared.seconds) ** 2 for compared in (point, reference))
        )
    several = any(other.ranks > 1 for other in smaller)
    model = fit(smaller, OPS, measured, largest) if several else Unknown("")
    step = model if isinstance(model, Unknown) else model.predict(point.ranks, point.samples)
    return SizeResult(
        point=point,
        scaling=scaling,
        ratio=ratio,
        half_width=half_width,
        lost=_lost(point, reference) if reference else {},
        predicted_seconds=None if isinstance(step, Unknown) else step.seconds,
        unpredicted=step.reason if isinstance(step, Unknown) else "",
    )


def _lost(point: Point, reference: Point) -> dict[str, float]:
    """Return the share of the step by which each time category exceeds the reference, for as many samples."""
    factor = (point.samples / point.ranks) / (reference.samples / reference.ranks)
    excess = {
        category: (point.causes.get(category, 0.0) - factor * reference.causes.get(category, 0.0)) / point.seconds
        for category in {*point.causes, *reference.causes}
    }
    worst = sorted(excess.items(), key=lambda item: (-item[1], item[0]))
    return {category: share for category, share in worst if share >= _MIN_LOSS}
