"""Numbers and texts as people read them. What is not known is unknown, never zero; what others wrote is no HTML."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from math import isfinite
from urllib.parse import urlencode

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


def moment(unix_seconds: float) -> str:
    """With the day, where it may be another one."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%d %b %H:%M:%S UTC")


def share(ratio: float | None) -> str:
    """0.8734 → 87.3 %."""
    return UNKNOWN if ratio is None or not isfinite(ratio) else f"{ratio:.1%}".replace("%", " %")


def marked(text: str) -> str:
    """As HTML: escaped, with `commands` set as code and lines kept."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def plain(text: str) -> str:
    """As Markdown that says just this: what others wrote is no picture, no link and no emphasis either."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def link(view: str, params: Mapping[str, str], text: str) -> str:
    """As HTML: a way to another view, in the same tab."""
    return f'<a href="{escape(f"{view}?{urlencode(params)}")}" target="_self">{escape(text)}</a>'
