"""A chart on a page: its question and PromQL, and the chart or the reason why its values are unknown."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import escape
from typing import NamedTuple

import pandas as pd
import streamlit as st

from dashboards import alike, charts, heat
from dashboards.address import Span
from dashboards.colours import in_order
from dashboards.formats import ABOVE_ONE, date_and_time, efficiency
from dashboards.gpu_time import DAY_SECONDS
from dashboards.history import History
from dashboards.http_requests import BACKGROUND, Unreachable
from dashboards.marks import Mark
from dashboards.markup import escaped_html, escaped_markdown, heading_html
from dashboards.panels import Panel, Selection
from dashboards.panels.scaling import EFFICIENCY
from dashboards.views import clock, plain_chart
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN

MAX_CULPRIT_HOSTS = 16  # of one finding; they get rows in a heat map that cannot show all hosts
STALE_POINTS = 3  # with this many missing points at its end, a chart shows since when values are unknown


def prefetch(panels: tuple[Panel, ...], context: ViewContext) -> None:
    """Send the queries of these panels in parallel while the page is drawn, so that the answers are cached in time."""
    for panel in panels:
        BACKGROUND.submit(_ask, panel, context)


def prefetch_at(promql: str, moment: int, context: ViewContext) -> None:
    """Send a query about one moment while the page is drawn."""
    BACKGROUND.submit(context.prometheus.query_at, promql, moment)


def _ask(panel: Panel, context: ViewContext) -> None:
    _query(panel, context).send()


def show(panel: Panel, context: ViewContext) -> None:
    """Draw the panel for the selection of the reader."""
    try:
        query = _query(panel, context)
    except Unreachable as error:
        unknown(panel.key, f"{panel.question} {UNKNOWN}: {error}")
        return
    span = query.span
    heading(panel.question, panel.unit, query.promql, context, span)
    try:
        history = query.send()
        if history.known_until is None:
            is_nan = panel.shows_nan and history.nan_until
            raise Unreachable("the value is NaN or infinite" if is_nan else _absent(panel))
        marks = context.marks if panel.has_marks else ()
    except Unreachable as error:
        unknown(panel.key, f"{UNKNOWN}: {error}")
        return
    if panel.shape == "rows":
        _rows(panel, context, history, span)
    else:
        _lines(panel, context, history, span, marks)
    _notes(panel, context, history, span)


def unknown(key: str, reason: str) -> None:
    """Draw the reason in place of a chart."""
    st.html(f'<div class="zmon-chart-unknown" data-testid="zmon-{key}"><p>{escaped_html(reason)}</p></div>')


def grid(panels: tuple[Panel, ...], context: ViewContext) -> None:
    """Draw the panels in two columns."""
    for first in range(0, len(panels), 2):
        for column, panel in zip(st.columns(2), panels[first : first + 2], strict=False):
            with column:
                show(panel, context)


class _Query(NamedTuple):
    """The query of a panel. `send` raises Unreachable."""

    promql: str
    span: Span
    send: Callable[[], History]


def _query(panel: Panel, context: ViewContext) -> _Query:
    """Return the query for the selection of the reader. Raises Unreachable.

    For a heat map of too many hosts, this first asks Prometheus which hosts stand out. If Prometheus has not recorded
    that, the query is for all hosts.
    """
    are_rows = panel.shape == "rows"
    span = context.rows_span if are_rows else context.span
    selection = context.selection(span, panel.source)
    if panel.has_too_many_hosts(selection):
        selection = replace(selection, outlier_hosts=_outlier_hosts(panel, selection, span, context))
    promql = panel.query(selection)
    name = panel.legend_for(selection)
    keep_low = are_rows and panel.light_values == "low"
    send = partial(context.prometheus.query_range, promql, name, span, panel.max_series, keep_low=keep_low)
    return _Query(promql, span, send)


def _outlier_hosts(panel: Panel, selection: Selection, span: Span, context: ViewContext) -> tuple[str, ...]:
    """Return the hosts that stand out in the range, and those that a finding names. Raises Unreachable."""
    promql = panel.fill(selection.variables(), panel.outlier_promql)
    hosts = {sample.labels["host"] for sample in context.prometheus.query_at(promql, span.end)}
    culprits = {host for finding in context.findings for host in finding.hosts[:MAX_CULPRIT_HOSTS]}
    return tuple(sorted(hosts | culprits)) if hosts else ()


def _lines(panel: Panel, context: ViewContext, history: History, span: Span, marks: tuple[Mark, ...]) -> None:
    values = history.table
    if panel.shape == "areas":  # the legend omits categories that took no time
        values = values[values.groupby("series")["value"].transform("max") > 0]
    if panel.is_html:
        st.html(plain_chart.html(panel, values, context.begin(span), span.end))
        return
    culprits = tuple(rank for finding in context.findings for rank in finding.ranks)
    if not panel.shows_summary(context.selection(span, panel.source)):
        values = alike.merge_equal(panel, values, _rank_series(culprits, values))
    names = list(values["series"].unique())
    tables = charts.tables(values, marks, context.begin(span), span.end)
    kinds = set(tables[charts.MARKS]["kind"].to_pylist())
    spec = charts.specification(panel, in_order(names), kinds, culprits, is_long=_is_long(span)) | {"datasets": tables}
    st.vega_lite_chart(spec=spec, key=f"chart-{panel.key}")


def _rank_series(ranks: tuple[int, ...], values: pd.DataFrame) -> set[str]:
    """Return the names of the series of these ranks."""
    first_words = {f"rank {rank}" for rank in ranks}
    return {name for name in values["series"].unique() if " ".join(name.split()[:2]) in first_words}


def _rows(panel: Panel, context: ViewContext, history: History, span: Span) -> None:
    culprits = {f"rank {rank}" for finding in context.findings for rank in finding.ranks}
    culprits |= {host for finding in context.findings for host in finding.hosts}
    table = heat.table(panel, history.table, span.resolution, culprits)
    spec = heat.specification(panel, int(table["series"].count()), is_long=_is_long(span))
    st.vega_lite_chart(table, spec, key=f"chart-{panel.key}")


def heading(question: str, unit: str, promql: str, context: ViewContext, span: Span) -> None:
    """Draw the question with its unit and PromQL, and a link to the query in Prometheus.

    All of it is one element: popovers and code blocks for ten charts would cost a browser half a second.
    """
    link = context.prometheus.link(promql, span, is_now=context.address.at is None)
    anchor = f'<a href="{escape(link)}" target="_blank">Open in Prometheus</a>'
    st.html(heading_html(question, unit, "PromQL", f"<pre>{escape(promql)}</pre>{anchor}"))


def _absent(panel: Panel) -> str:
    """Return the names of the missing series, and the reason if the panel has one."""
    names = " or ".join(panel.series())
    reason = f": {panel.why_absent}" if panel.why_absent else ""
    return f"Prometheus has no {names} for this selection and time{reason}"


def _notes(panel: Panel, context: ViewContext, history: History, span: Span) -> None:
    """Draw notes below the chart: since when values are unknown, why one is above 100 %, and how many are not drawn."""
    since = (history.known_until or span.end) + span.resolution
    if panel.shows_nan and (history.nan_until or 0) >= since:
        st.html(f'<p class="zmon-unknown"><b>NaN or infinite</b> since {clock.html(since, date_and_time)}</p>')
    elif span.end - since >= (STALE_POINTS - 1) * span.resolution:
        st.html(f'<p class="zmon-unknown">{UNKNOWN} since {clock.html(since, date_and_time)}</p>')
    job = context.now.job
    if panel.key == EFFICIENCY.key and job and job.efficiency and job.efficiency.ratio >= ABOVE_ONE:
        st.caption(f"Now {escaped_markdown(efficiency(job.efficiency.ratio, job.efficiency.reference))}.")
    if history.num_left_out:
        extreme = "highest" if panel.shape == "rows" and panel.light_values == "low" else "lowest"
        st.caption(f"{history.num_left_out} more series, with the {extreme} values, are not drawn.")


def _is_long(span: Span) -> bool:
    return span.end - span.start >= DAY_SECONDS
