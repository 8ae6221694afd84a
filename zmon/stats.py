"""Plain statistics on short lists; an empty list has no answer (None), not 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile with linear interpolation (Hyndman & Fan 1996, type 7); None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def slope(points: Iterable[tuple[float, float]]) -> float | None:
    """How much of y there is for each of x, by the line through the origin that leaves the least sum of distances.

    It is the median of y ÷ x weighted by |x| (Laplace 1793): a few points far off do not move it. None: all x are 0.
    """
    ratios = sorted((y / x, abs(x)) for x, y in points if x)
    half = sum(weight for _, weight in ratios) / 2
    for ratio, weight in ratios:
        half -= weight
        if half <= 0:
            return ratio
    return None


def student(deviations: float, freedom: float) -> float:
    """What a threshold in standard deviations becomes where the deviation itself is estimated, with so many degrees of
    freedom (Abramowitz & Stegun 26.7.5, two terms); infinite where there is none."""
    if freedom <= 0:
        return float("inf")
    z = deviations
    return z * (1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2))
