"""Numbers as people say them; what is not known is called unknown, never zero."""

from datetime import UTC, datetime
from math import isfinite

UNKNOWN = "unknown"


def duration(seconds: float | None) -> str:
    """0.0832 → 83 ms, 4.06 → 4.1 s, 192 → 3 min 12 s, 7260 → 2 h 1 min."""
    if seconds is None or not isfinite(seconds):
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: float | None) -> str:
    """18618.2 → 18,618; 3.27 → 3.27. A NaN is shown as NaN: a loss that is NaN is news, not a missing value."""
    if number is None:
        return UNKNOWN
    if not isfinite(number):
        return "NaN" if number != number else str(number)
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def clock(unix_seconds: float | None) -> str:
    """Time of day in UTC, as on the charts: people on call sit in more than one time zone."""
    if unix_seconds is None or not isfinite(unix_seconds):
        return UNKNOWN
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%H:%M:%S UTC")
