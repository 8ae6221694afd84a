"""Formats numbers and texts for people. An unknown value is shown as "unknown", never as zero."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from html import escape
from math import isfinite
from urllib.parse import urlencode

from zmon.format import UNKNOWN, counted
from zmon.schema.curve import Point

ABOVE_ONE = 1.0005  # from here on, an efficiency is shown as more than 100.0 %


def number(value: float | None) -> str:
    """Format a number: 18618.2 → 18,618; 3.27 → 3.27. NaN stays NaN, because a NaN loss is not a missing value."""
    if value is None:
        return UNKNOWN
    if not isfinite(value):
        return "NaN" if value != value else str(value)
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


def escaped_html(text: str) -> str:
    """Return the text as HTML: escaped, with text in backticks as code, and with its line breaks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")


def escaped_markdown(text: str) -> str:
    """Return the text as Markdown with all punctuation escaped, so that it contains no picture, link or emphasis."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def unknown_html(what: str, reason: object) -> str:
    """Return the HTML of a line about something that is not known, with the reason."""
    return f'<p class="zmon-unknown">{what}: {UNKNOWN}, {escaped_html(str(reason))}</p>'


def table_html(test_id: str, heads: Iterable[str], rows: Iterable[str]) -> str:
    """Return the HTML of a table; heads are HTML, and rows come from `row_html`."""
    head = "".join(f"<th>{head}</th>" for head in heads)
    return (
        f'<div class="zmon-table" data-testid="{test_id}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def row_html(cells: Iterable[str], tint: str = "") -> str:
    """Return the row of a table; cells are HTML. With a tint, its first cell is empty and has this colour."""
    first = f'<td style="--tint:{tint}"></td>' if tint else ""
    return f"<tr>{first}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def numbers_html(test_id: str, numbers: Mapping[str, str]) -> str:
    """Return the HTML of large numbers, by their labels; all of it is HTML."""
    items = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in numbers.items())
    return f'<dl class="zmon-vitals" data-testid="{test_id}">{items}</dl>'


def link(view: str, params: Mapping[str, str], text: str) -> str:
    """Return the HTML of a link to another view, in the same tab."""
    return f'<a href="{escape(f"{view}?{urlencode(params)}")}" target="_self">{escape(text)}</a>'


def external_link(url: str) -> str:
    """Return the HTML of a link to a page of another server, in a new tab, which cannot reach this one."""
    return f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{escape(url)}</a>'
