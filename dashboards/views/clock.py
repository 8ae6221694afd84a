"""Times on a page: in UTC, and on hover in the time zone of the reader's browser."""

from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from zoneinfo import ZoneInfo

import streamlit as st

from dashboards.formats import time_of_day
from dashboards.gpu_time import DAY_SECONDS

NUM_TICKS = 4
SHORT_SECONDS = 600  # a shorter axis has seconds in its times


def html(unix_seconds: float | None, in_utc: Callable[[float | None], str] = time_of_day) -> str:
    """Return HTML with the time in UTC. Its title is the local time, unless the browser is in UTC."""
    text = escape(in_utc(unix_seconds))
    local = local_time(unix_seconds, st.context.timezone)
    return f'<time title="{escape(local)}">{text}</time>' if local else text


def local_time(unix_seconds: float | None, zone: str | None) -> str:
    """Return the local time with its zone: Fri 27 Nov 13:03:05 CET. Empty if it is unknown, or UTC."""
    if unix_seconds is None or not zone:
        return ""
    try:
        local = datetime.fromtimestamp(unix_seconds, ZoneInfo(zone))
    except (KeyError, OSError, OverflowError, ValueError):  # a zone that only the browser knows, or no time
        return ""
    return f"{local:%a %d %b %H:%M:%S %Z}" if local.utcoffset() else ""


def axis(begin: float, end: float, *, is_now: bool = False) -> str:
    """Return HTML with the times below a chart, in UTC. `is_now`: it ends now."""
    form = "%d %b"
    if end - begin <= SHORT_SECONDS:
        form = "%H:%M:%S"
    elif end - begin <= DAY_SECONDS:  # a longer axis has dates
        form = "%H:%M"
    times = [begin + (end - begin) * tick / NUM_TICKS for tick in range(NUM_TICKS + 1)]
    ticks = [f"{datetime.fromtimestamp(time, UTC):{form}}" for time in times]
    last = "now" if is_now else ticks[-1]
    return f'<div class="zmon-axis">{"".join(f"<i>{tick}</i>" for tick in ticks[:-1])}<i>{last} (UTC)</i></div>'
