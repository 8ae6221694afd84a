"""The page Compare: the steps of two jobs side by side, or of one job in two time ranges.

The page shows differences but does not judge them. `zmon compare` tests whether a difference is more than chance.
"""

from collections.abc import Callable
from math import isclose

import streamlit as st

from dashboards.address import RANGES
from dashboards.colours import in_order
from dashboards.formats import date_and_time, efficiency, number
from dashboards.http_requests import Unreachable
from dashboards.markup import escaped_html, row_html, table_html, unknown_html
from dashboards.side import PROMQL_BY_FIGURE, Side, jobs, last_time, side
from dashboards.views import banner, frame, panel
from dashboards.views.context import ViewContext
from zmon.format import duration

EQUAL_RATIO = 1e-6  # two values that differ by a smaller share are equal: a store may round its samples
PREVIOUS_RANGE = "same job, previous time range"
Row = tuple[str, str, str, str]


def show(context: ViewContext) -> None:
    """Draw the page."""
    frame.live(banner.line, context)
    frame.choices(context)
    if not context.job_id:
        return
    _choose_other(context)
    seconds = RANGES[context.address.range]
    other_id = context.address.other
    try:
        until = _last_time(context, context.job_id)
        current = side(context.prometheus, context.job_id, until, seconds)
        other_until = _last_time(context, other_id) if other_id else until - seconds
        other = side(context.prometheus, other_id or context.job_id, other_until, seconds)
    except Unreachable as error:
        st.html(unknown_html("Differences", error, "zmon-compare"))
        return
    promql = "\n\n".join(f"{figure}: {query}" for figure, query in PROMQL_BY_FIGURE.items())
    panel.heading("What differs between the two?", "", promql, context, context.span)
    _table(current, other)
    st.caption("Means over the time range. `zmon compare A B` tests whether a difference is more than chance.")


def _last_time(context: ViewContext, job_id: str) -> int:
    """Return when the job last had series: of a job that ended, the range before its end is compared.

    Raises Unreachable.
    """
    last = last_time(context.prometheus, job_id, context.span.end)
    if last is None:
        raise Unreachable(f"Prometheus has no zmon_job_info of {job_id} in the last 7 days")
    return last


def _choose_other(context: ViewContext) -> None:
    try:
        job_ids = jobs(context.prometheus, context.now.time)
    except Unreachable:
        job_ids = []
    # The job of the URL is always in the list, so that it can be deselected.
    job_ids = list(dict.fromkeys([*job_ids, *filter(None, [context.address.other])]))
    frame.select(
        "Compare with",
        [PREVIOUS_RANGE, *(job_id for job_id in job_ids if job_id != context.job_id)],
        context.address.other or PREVIOUS_RANGE,
        lambda other: context.address.moved(other=None if other == PREVIOUS_RANGE else other),
    )


def _table(current: Side, other: Side) -> None:
    rows = [
        ("ranks", number(other.num_ranks), number(current.num_ranks), ""),
        ("efficiency", efficiency(other.efficiency), efficiency(current.efficiency), ""),
        _row("samples/s", number, other.samples_per_second, current.samples_per_second),
        _row("step", duration, other.step_seconds, current.step_seconds),
    ]
    for cause in in_order([*{**other.causes, **current.causes}]):
        if max(other.causes.get(cause, 0.0), current.causes.get(cause, 0.0)) > 0:
            rows.append(_cause_row(cause, current, other))
    sides = (f"{shown.job_id} until {date_and_time(shown.until)}" for shown in (other, current))
    heads = ("", *sides, "difference")
    body = (row_html(map(escaped_html, row)) for row in rows)
    st.html(table_html("zmon-compare", map(escaped_html, heads), body))


def _row(name: str, in_words: Callable[[float | None], str], old: float | None, new: float | None) -> Row:
    difference = f"{new / old - 1:+.1%}" if old and new is not None else ""
    return name, in_words(old), in_words(new), difference


def _cause_row(cause: str, current: Side, other: Side) -> Row:
    """Return the row of a time category. A job that has other categories but not this one spent no time on it."""
    name = f"wall-clock per step: {cause}"
    old = other.causes.get(cause, 0.0) if other.causes else None
    new = current.causes.get(cause, 0.0) if current.causes else None
    if old is None or new is None:
        return name, duration(old), duration(new), ""
    if isclose(old, new, rel_tol=EQUAL_RATIO):
        return name, duration(old), duration(new), "0"
    sign = "+" if new >= old else "−"
    return name, duration(old), duration(new), f"{sign}{duration(abs(new - old))}"
