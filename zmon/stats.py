"""Plain statistics on short lists. The result for an empty list is None, not 0."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quantile(values: Sequence[float], q: float) -> float | None:
    """Return the q-quantile with linear interpolation (Hyndman & Fan 1996, type 7); None for an empty list."""
    if not values:
        return None
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def slope(points: Iterable[tuple[float, float]]) -> float | None:
    """Return the slope of the line through the origin with the least sum of absolute distances; None if all x are 0.

    This slope is the median of y ÷ x, weighted by |x| (Laplace 1793). A few outliers do not move it.
    """
    ratios = sorted((y / x, abs(x)) for x, y in points if x)
    half = sum(weight for _, weight in ratios) / 2
    for ratio, weight in ratios:
        half -= weight
        if half <= 0:
            return ratio
    return None


def student(deviations: float, freedom: float) -> float:
    """Return a threshold in standard deviations, adjusted for a standard deviation that is an estimate.

    `deviations` is the threshold for a known standard deviation. `freedom` is the number of degrees of freedom of the
    estimate. The result is Student's t (Abramowitz & Stegun 26.7.5, two terms), infinite without a degree of freedom.
    """
    if freedom <= 0:
        return float("inf")
    z = deviations
    return z * (1 + (z**2 + 1) / (4 * freedom) + (5 * z**4 + 16 * z**2 + 3) / (96 * freedom**2))
