"""One chart on the page: its question, its answer over time or why there is none, and how it was asked."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from html import escape

import streamlit as st

from dashboards import charts, heat
from dashboards.address import Span
from dashboards.asking import Unreachable
from dashboards.colours import in_order
from dashboards.history import History
from dashboards.marks import Mark
from dashboards.panels import Panel
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, marked, moment

A_DAY = 86400
STALE_POINTS = 3  # without a value, before a chart says since when
_AHEAD = ThreadPoolExecutor(4, "ask")  # of all viewers


def ahead(panels: tuple[Panel, ...], seen: Seen) -> None:
    """All of these are asked at once, while the page is drawn: when the turn of one comes, its answer is there."""
    for panel in panels:
        _AHEAD.submit(_question(panel, seen)[2])


def show(panel: Panel, seen: Seen) -> None:
    """The panel as it is for what is looked at."""
    promql, span, ask = _question(panel, seen)
    heading(panel.question, panel.unit, promql, seen, span)
    try:
        found = ask()
        if found.known_until is None:
            raise Unreachable("it is NaN" if panel.nan_is_news and found.nan_until else _absent(panel))
        on_it = seen.marks if panel.marked else ()
    except Unreachable as error:
        unknown(panel.key, f"{UNKNOWN}: {error}")
        return
    draw = _rows if panel.shape == "rows" else _lines
    draw(panel, seen, found, span, on_it)
    _below(panel, found, span)


def unknown(key: str, why: str) -> None:
    """In place of a chart."""
    st.html(f'<div class="zmon-chart-unknown" data-testid="zmon-{key}"><p>{marked(why)}</p></div>')


def grid(panels: tuple[Panel, ...], seen: Seen) -> None:
    """Two abreast where there is room."""
    for first in range(0, len(panels), 2):
        for column, panel in zip(st.columns(2), panels[first : first + 2], strict=False):
            with column:
                show(panel, seen)


def _question(panel: Panel, seen: Seen) -> tuple[str, Span, Callable[[], History]]:
    """The PromQL, over which time, and what asks it and raises Unreachable."""
    are_rows = panel.shape == "rows"
    span = seen.rows_span if are_rows else seen.span
    asked = seen.asked(span, is_recorded=panel.is_recorded)
    promql = panel.asked(asked)
    keep_low = are_rows and panel.light_is == "low"
    return promql, span, partial(seen.prometheus.over, promql, panel.name(asked), span, panel.most, keep_low=keep_low)


def _lines(panel: Panel, seen: Seen, found: History, span: Span, marked: tuple[Mark, ...]) -> None:
    values = found.table
    if panel.shape == "areas":  # what takes no time needs no place in the legend
        values = values[values.groupby("series")["value"].transform("max") > 0]
    names = list(values["series"].unique())
    culprits = tuple(rank for finding in seen.findings for rank in finding.ranks)
    tables = charts.tables(values, marked, seen.begin(span), span.end)
    kinds = set(tables[charts.MARKS]["kind"].to_pylist())
    spec = charts.drawing(panel, in_order(names), kinds, culprits, is_long=_is_long(span)) | {"datasets": tables}
    st.vega_lite_chart(spec=spec, key=f"chart-{panel.key}")


def _rows(panel: Panel, seen: Seen, found: History, span: Span, _: tuple[Mark, ...]) -> None:
    blamed = {f"rank {rank}" for finding in seen.findings for rank in finding.ranks}
    blamed |= {host for finding in seen.findings for host in finding.hosts}
    table = heat.table(panel, found.table, span.resolution, blamed)
    spec = heat.drawing(panel, int(table["series"].count()), is_long=_is_long(span))
    st.vega_lite_chart(table, spec, key=f"chart-{panel.key}")


def heading(question: str, unit: str, promql: str, seen: Seen, span: Span) -> None:
    """The question, how it was asked, and where to go on asking.

    One element: a popover and a block of code for each of ten charts would keep a browser busy for half a second.
    """
    link = seen.prometheus.link(promql, span, is_now=seen.address.at is None)
    on = f'<a href="{escape(link)}" target="_blank">Open in Prometheus</a>'
    st.html(
        f'<div class="zmon-head"><p><strong>{escape(question)}</strong> {escape(unit)}</p>'
        f"<details><summary>PromQL</summary><pre>{escape(promql)}</pre>{on}</details></div>"
    )


def _absent(panel: Panel) -> str:
    """Which series is missing, by name, and what would make it known."""
    names = " or ".join(panel.series())
    return f"Prometheus has no {names} of this at that time{f': {panel.absent}' if panel.absent else ''}"


def _below(panel: Panel, found: History, span: Span) -> None:
    """What a reader would else take for zero, for missing, or for all there is."""
    since = (found.known_until or span.end) + span.resolution
    if panel.nan_is_news and (found.nan_until or 0) >= since:
        st.html(f'<p class="zmon-unknown"><b>NaN</b> since {moment(since)}: no number any more</p>')
    elif span.end - since >= (STALE_POINTS - 1) * span.resolution:
        st.html(f'<p class="zmon-unknown">{UNKNOWN} since {moment(since)}</p>')
    if found.left_out:
        st.caption(f"{found.left_out} more are not drawn: those that say less.")


def _is_long(span: Span) -> bool:
    return span.end - span.start >= A_DAY
