"""Numbers and times as texts for people. An unknown value is shown as "unknown", never as zero."""

from datetime import UTC, datetime
from math import isfinite, isnan

from zmon.format import UNKNOWN, counted
from zmon.schema.curve import Point

ABOVE_ONE = 1.0005  # from here on, an efficiency is shown as more than 100.0 %


def number(value: float | None) -> str:
    """Format a number: 18618.2 → 18,618; 3.27 → 3.27. NaN stays NaN, because a NaN loss is not a missing value."""
    if value is None:
        return UNKNOWN
    if not isfinite(value):
        return "NaN" if isnan(value) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def gpu_time(hours: float | None) -> str:
    """Format the time of all GPUs together: 12.5 → 12.5 GPU-h; 0.0064 → 23 GPU-s."""
    if hours is None or not isfinite(hours):
        return UNKNOWN
    if hours >= 1 or hours == 0:
        return f"{number(hours)} GPU-h"
    seconds = hours * 3600
    return f"{number(seconds / 60)} GPU-min" if seconds >= 60 else f"{number(seconds)} GPU-s"


def time_of_day(unix_seconds: float | None) -> str:
    """Return the time of day in UTC, as on the charts: 12:03:05 UTC. People on call are in several time zones."""
    return _utc(unix_seconds, "%H:%M:%S UTC")


def date_and_time(unix_seconds: float | None) -> str:
    """Return the day and the time of day in UTC: 27 Nov 12:03:05 UTC."""
    return _utc(unix_seconds, "%d %b %H:%M:%S UTC")


def _utc(unix_seconds: float | None, form: str) -> str:
    if unix_seconds is None or not isfinite(unix_seconds):
        return UNKNOWN
    return datetime.fromtimestamp(unix_seconds, UTC).strftime(form)


def share(ratio: float | None) -> str:
    """Return a ratio in percent: 0.8734 → 87.3 %."""
    return UNKNOWN if ratio is None or not isfinite(ratio) else f"{ratio:.1%}".replace("%", " %")


def efficiency(ratio: float | None, reference: Point | None = None) -> str:
    """Return a scaling efficiency in percent. Above 100 %, the text has the reason: the reference."""
    text = share(ratio)
    if ratio is None or not ratio >= ABOVE_ONE:
        return text
    if reference is None:
        return f"{text} (above 100 %: a rank is faster than at the smallest recorded size)"
    rates = f"a rank trains on {number(ratio * reference.rate)} samples/s, and on {number(reference.rate)}"
    return f"{text} (above 100 %: {rates} with {counted(reference.ranks, 'rank')}, recorded by {reference.by})"
