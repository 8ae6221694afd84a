"""What each size reached of the smallest one, what ate the rest, and what smaller sizes had let expect.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from zmon.scaling.fit import fit
from zmon.scaling.predict import Links
from zmon.schema.curve import Curve, Point
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown

_LEAST_LOSS = 0.01  # of a step, that is named


@dataclass(frozen=True)
class SizeResult:
    """One size."""

    point: Point
    scaling: str  # from the smallest size: "weak", "strong", or "" for what is held against nothing
    ratio: float | None  # efficiency
    half_width: float | None  # of the interval around it
    lost: Mapping[
        str, float
    ]  # by cause, the largest first: the part of this size's step that the smallest did not need
    predicted_seconds: float | None  # of a step, from the smaller sizes alone
    unpredicted: str = ""  # why there is none


def judged(points: Sequence[Point], measured: Mapping[str, Links] | None = None) -> list[SizeResult]:
    """A row for each, the smallest first, weak scaling before strong."""
    curve = Curve("", points)
    most = max((p.ranks for p in points), default=1)
    rows = [_row(curve, point, measured, most) for point in points]
    return sorted(rows, key=lambda row: (row.scaling == "strong", row.point.ranks, row.point.samples))


def _row(curve: Curve, point: Point, measured: Mapping[str, Links] | None, most: int) -> SizeResult:
    smaller = [p for p in curve.points if p.ranks < point.ranks]
    found = Curve("", smaller).reference(point.ranks, point.samples)
    scaling, reference = found or ("", None)
    ratio = half_width = None
    if reference is not None:
        ratio = point.rate / reference.rate
        half_width = ratio * sqrt(sum(((p.half_width_seconds or 0.0) / p.seconds) ** 2 for p in (point, reference)))
    several = any(p.ranks > 1 for p in smaller)
    model = fit(smaller, OPS, measured, most) if several else Unknown("")
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
    """What each cause takes beyond what the same samples took a rank of the reference, as a part of the step."""
    more = (point.samples / point.ranks) / (reference.samples / reference.ranks)
    beyond = {
        cause: (point.causes.get(cause, 0.0) - more * reference.causes.get(cause, 0.0)) / point.seconds
        for cause in {*point.causes, *reference.causes}
    }
    worst = sorted(beyond.items(), key=lambda item: (-item[1], item[0]))
    return {cause: part for cause, part in worst if part >= _LEAST_LOSS}
