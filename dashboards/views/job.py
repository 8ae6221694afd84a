"""One job on one page: is it healthy; if not, who, and what to do; then the charts that show why."""

import logging
from html import escape

import streamlit as st

from dashboards import charts
from dashboards.glance import Glance, glance
from dashboards.panels import PANELS, Panel
from dashboards.queries import Hub, Prometheus, Unreachable
from dashboards.views import banner, ranks
from dashboards.views.style import CSS
from dashboards.words import UNKNOWN

REFRESH_SECONDS = 2  # zmon's scrape interval: there is nothing newer to show
RANGES = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400}
POINTS = 300  # as many as a chart half a screen wide can tell apart
SHORTEST_WINDOW_SECONDS = 10  # five scrapes: a rate survives two that fail


def page() -> None:
    """The page; what moves on it is inside one fragment, so that a refresh reruns nothing else."""
    st.html(CSS)
    live()


@st.fragment(run_every=REFRESH_SECONDS)
def live() -> None:
    """Everything, once more. Whatever fails unforeseen costs one line, and the next refresh tries again."""
    try:
        now = glance(Prometheus(), Hub(), st.query_params.get("job_id"))
        seconds = RANGES.get(st.query_params.get("range", ""), RANGES["15m"])
        banner.show(now)
        if now.job_id:
            ranks.show(now)
            choices(now, seconds)
            history(now, seconds)
    except Exception as error:
        logging.getLogger(__name__).exception("the page failed")
        st.error(f"This page failed: {type(error).__name__}: {error}. Use `zmon status`; the dashboard's log has more.")


def choices(now: Glance, seconds: int) -> None:
    """Which job and how far back; both live in the URL, so that a link shows what its sender saw."""
    if "job_id" not in st.query_params:
        st.query_params["job_id"] = now.job_id
    job_ids = list(dict.fromkeys([*now.job_ids, now.job_id]))
    left, right, _ = st.columns([2, 1, 3])
    _chosen(left, "Job", "job_id", job_ids, now.job_id)
    _chosen(right, "Time range", "range", list(RANGES), next(name for name in RANGES if RANGES[name] == seconds))


def _chosen(place, label: str, parameter: str, options: list[str], current: str) -> None:
    def keep() -> None:
        st.query_params[parameter] = st.session_state[parameter]

    place.selectbox(label, options, index=options.index(current), key=parameter, on_change=keep)


def history(now: Glance, seconds: int) -> None:
    """The charts, two abreast where there is room."""
    resolution = max(REFRESH_SECONDS, seconds // POINTS)
    end = int(now.at) // resolution * resolution  # the same grid at every refresh, so that points do not wander
    for first in range(0, len(PANELS), 2):
        for column, panel in zip(st.columns(2), PANELS[first : first + 2], strict=False):
            with column:
                _chart(panel, now, end - seconds, end, resolution)


def _chart(panel: Panel, now: Glance, start: int, end: int, resolution: int) -> None:
    """A question, its answer over time, and how it was asked."""
    step_seconds = (now.job or {}).get("step_seconds") or 0
    window = max(SHORTEST_WINDOW_SECONDS, resolution, round(4 * step_seconds))  # some steps end in every window
    promql = panel.asked(now.job_id, window, len(now.ranks))
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{panel.question}** {panel.unit}", width="content")
        with st.popover("PromQL", type="tertiary"):
            st.code(promql, language="promql")
    try:
        if not now.prometheus_answers:  # asked a moment ago: six charts would wait six times for it
            raise Unreachable("Prometheus does not answer")
        samples = Prometheus().over(promql, panel.legend, start, end, resolution)
        if samples.empty:
            raise Unreachable("Prometheus has no such data")
    except Unreachable as error:
        st.html(f'<div class="zmon-chart-unknown">{UNKNOWN}: {escape(str(error))}</div>')
        return
    fault = next((finding for finding in now.findings if finding["severity"] == "critical"), None)
    onset = fault["onset"] if fault and fault["onset"] > start else None
    st.vega_lite_chart(samples, charts.drawing(panel, onset, tuple(fault["ranks"]) if fault else ()))
