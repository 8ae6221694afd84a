"""Compares the values that two runs reported, such as their loss, at equal numbers of samples.

Pure. Only the last half of the samples that both runs have processed is compared, because the loss falls steeply before
it. Both runs are cut into blocks of the same samples, so a trend that they share cancels out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isfinite
from statistics import fmean

from msgspec.structs import replace

from zmon.offline.compare.judge import BLOCKS, MIN_BLOCKS, Change, Result, half_width_of
from zmon.offline.compare.series import Points, Series

MIN_CHANGE = 0.001  # relative to the mean in the first run
_LIMIT = 1e300  # a sum of larger values may overflow


def compare_gauges(before: Series, after: Series) -> list[Change]:
    """Return the change of each value that both runs reported, by name."""
    names = sorted(before.gauges.keys() & after.gauges.keys())
    if before.has_samples != after.has_samples:
        reason = "one of the runs does not report its samples"
        return [Change(name, "", reason=reason) for name in names]
    return [_change(name, before.gauges[name], after.gauges[name]) for name in names]


def _change(name: str, before: Points, after: Points) -> Change:
    """Return the change of one value between two runs, over the same samples."""
    last = min(before[-1][0], after[-1][0])
    first = max(before[0][0], after[0][0], last // 2)
    sides = [[point for point in points if first <= point[0] <= last] for points in (before, after)]
    unknown = Change(name, "")
    if not all(isfinite(value) and abs(value) < _LIMIT for side in sides for _, value in side):
        reason = f"one of the runs reported a value that is NaN, infinite, or at least {_LIMIT:g} in magnitude"
        return replace(unknown, reason=reason)
    mean_before, mean_after = (fmean(value for _, value in side) if side else None for side in sides)
    unknown = replace(unknown, before=mean_before, after=mean_after)
    num_blocks = min(BLOCKS, min(map(len, sides)) // 2)
    if num_blocks < MIN_BLOCKS:
        reason = f"each run needs {2 * MIN_BLOCKS} values in the last half of the samples that both have processed"
        return replace(unknown, reason=reason)
    edges = [first + (last - first) * n / num_blocks for n in range(1, num_blocks)]
    blocks = [_by_block(side, edges) for side in sides]
    pairs = [(fmean(a), fmean(b)) for a, b in zip(*blocks, strict=True) if a and b]
    if len(pairs) < MIN_BLOCKS:
        return replace(unknown, reason=f"the runs have values in fewer than {MIN_BLOCKS} common blocks of samples")
    mean_before, mean_after = fmean(a for a, _ in pairs), fmean(b for _, b in pairs)
    if mean_before == 0:
        return replace(unknown, reason="its mean is 0 in the first run")
    changes = [(b - a) / abs(mean_before) for a, b in pairs]
    change = fmean(changes)
    half_width = half_width_of(changes)
    result: Result = "alike"
    if abs(change) >= MIN_CHANGE and abs(change) > half_width:
        result = "higher" if change > 0 else "lower"
    return Change(name, "", mean_before, mean_after, change, half_width, result)


def _by_block(points: Points, edges: Sequence[float]) -> list[list[float]]:
    blocks: list[list[float]] = [[] for _ in range(len(edges) + 1)]
    for samples, value in points:
        blocks[bisect_left(edges, samples)].append(value)
    return blocks
