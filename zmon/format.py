"""Formats durations, numbers and lists for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite

UNKNOWN = "unknown"
NONE = "–"  # there is no such value: the job has ended, for example


def duration(seconds: float | None) -> str:
    """Format seconds: 0.0832 → 83.2 ms, 4.06 → 4.1 s, 192 → 3 min 12 s, 7260 → 2 h 1 min, 200000 → 2 d 7 h."""
    if seconds is None or not isfinite(seconds):
        return UNKNOWN
    seconds = max(0.0, seconds)  # the clock of another host may be slightly ahead
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for limit, size, names in ((60, 1, ("s", "")), (3600, 60, ("min", "s")), (86400, 3600, ("h", "min"))):
        if whole < limit:
            remainder = whole % size * 60 // size
            return f"{whole // size} {names[0]}" + (f" {remainder} {names[1]}" if remainder and names[1] else "")
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def clock(unix_seconds: float) -> str:
    """Format a time of day in UTC, because people on call are in several time zones: 12:03:05 UTC."""
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%H:%M:%S} UTC"


def number(value: float | None) -> str:
    """Format a reported figure; None is NaN, because JSON carries NaN as null."""
    return "NaN" if value is None else f"{value:.4g}"


def listed(names: Sequence[str], shown: int = 8, number: int | None = None) -> str:
    """Join the first names with commas, and append the number of the others.

    `number` is the number of all names, if `names` has only the first ones.
    """
    left_out = (len(names) if number is None else number) - shown
    more = f" and {left_out} more" if left_out > 0 else ""
    return ", ".join(names[:shown]) + more


def counted(number: int, what: str) -> str:
    """Format a number with its noun: 1 agent, 2 agents."""
    return f"{number} {what}{'' if number == 1 else 's'}"
