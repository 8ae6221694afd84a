"""Plain statistics on short lists; an empty list has no answer (None), not 0."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile with linear interpolation (Hyndman & Fan 1996, type 7); None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
