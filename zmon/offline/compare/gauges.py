"""Does it learn as well? What the runs reported of themselves, their loss above all, at equal samples.

Pure. Compared is the last half of the samples that both have seen: before it the loss falls, and steeply. Blocks of
equal samples stand side by side, so that what both still learn there cancels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from statistics import fmean

from zmon.offline.compare.judge import BLOCKS, LEAST_BLOCKS, Change, half_width_of
from zmon.offline.compare.series import Series

WORTH_TELLING = 0.001  # of its value in the first run
_MOST = 1e300  # sums of larger ones are none

Points = Sequence[tuple[int, float]]


def compare_gauges(before: Series, after: Series) -> list[Change]:
    """Of those that both runs told, by name."""
    names = sorted(before.gauges.keys() & after.gauges.keys())
    return [_judged(name, before.gauges[name], after.gauges[name]) for name in names]


def _judged(name: str, ours: Points, theirs: Points) -> Change:
    last = min(ours[-1][0], theirs[-1][0])
    first = max(ours[0][0], theirs[0][0], last // 2)
    sides = [[point for point in points if first <= point[0] <= last] for points in (ours, theirs)]
    unknown = Change(name, "", None, None, None, None, "unknown")  # so far
    if not all(isfinite(value) and abs(value) < _MOST for side in sides for _, value in side):
        return replace(unknown, reason="one of the runs told what is no number")
    ours_mean, theirs_mean = (fmean(value for _, value in side) if side else None for side in sides)
    unknown = replace(unknown, before=ours_mean, after=theirs_mean)
    number = min(BLOCKS, min(map(len, sides)) // 2)
    if number < LEAST_BLOCKS:
        least = f"{2 * LEAST_BLOCKS} values"
        return replace(
            unknown, reason=f"it takes {least} of each run in the last half of the samples that both have seen"
        )
    edges = [first + (last - first) * n / number for n in range(1, number)]
    blocks = [_by_block(side, edges) for side in sides]
    pairs = [(fmean(a), fmean(b)) for a, b in zip(*blocks, strict=True) if a and b]
    unit = abs(fmean(a for a, _ in pairs)) if pairs else 0.0
    if len(pairs) < LEAST_BLOCKS or unit == 0:
        return replace(unknown, reason="they told it at other samples" if unit else "it is 0 in the first run")
    changes = [(b - a) / unit for a, b in pairs]
    change, half_width = fmean(changes), half_width_of(changes)
    verdict = "alike"
    if abs(change) >= WORTH_TELLING and abs(change) > half_width:
        verdict = "higher" if change > 0 else "lower"
    return Change(name, "", fmean(a for a, _ in pairs), fmean(b for _, b in pairs), change, half_width, verdict)


def _by_block(points: Points, edges: Sequence[float]) -> list[list[float]]:
    blocks: list[list[float]] = [[] for _ in range(len(edges) + 1)]
    for samples, value in points:
        blocks[bisect_left(edges, samples)].append(value)
    return blocks
