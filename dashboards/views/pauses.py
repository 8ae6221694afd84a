"""A table of a job's pauses that ended by themselves, by their place in its code."""

import streamlit as st

from dashboards.formats import number
from dashboards.markup import escaped_html, heading_html, row_html, table_html
from dashboards.views.context import ViewContext
from zmon.format import duration
from zmon.schema.pause import HealedPause

MAX_PAUSES = 8  # the longest; `zmon status` shows three
HEADS = ("phase and line of the job's code", "longest", "times", "last")
SOURCE = "GET /api/v1/jobs: the field “pauses” of the job"


def show(context: ViewContext) -> None:
    """Draw the longest pauses of the job; nothing if none healed in the last day."""
    pauses = sorted(context.now.job.pauses if context.now.job else (), key=lambda pause: -pause.longest_seconds)
    if not pauses:
        return
    rows = (_row(pause, context.now.as_of) for pause in pauses[:MAX_PAUSES])
    heading = heading_html("At which places do pauses end by themselves?", "seconds", "HTTP", f"<pre>{SOURCE}</pre>")
    st.html(heading + table_html("zmon-pauses", map(escaped_html, HEADS), rows))
    more = f" {len(pauses) - MAX_PAUSES} places with shorter pauses are not shown." if len(pauses) > MAX_PAUSES else ""
    st.caption(f"zmon waits longer at these places before a stall is critical. A place is forgotten after a day.{more}")


def _row(pause: HealedPause, now: float) -> str:
    cells = [
        f"{escaped_html(pause.place.phase)}, <code>{escaped_html(pause.place.frame)}</code>",
        duration(pause.longest_seconds),
        number(pause.number),
        f"{duration(max(0.0, now - pause.last_time))} ago",
    ]
    return row_html(cells)
