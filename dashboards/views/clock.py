"""Times on a page: in UTC, and on hover in the time zone of the reader's browser."""

from collections.abc import Callable
from datetime import datetime
from html import escape
from zoneinfo import ZoneInfo

import streamlit as st

from dashboards.formats import time_of_day


def html(unix_seconds: float | None, in_utc: Callable[[float | None], str] = time_of_day) -> str:
    """Return HTML with the time in UTC. Its title is the local time, unless the browser is in UTC."""
    text, local = escape(in_utc(unix_seconds)), local_time(unix_seconds, st.context.timezone)
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
