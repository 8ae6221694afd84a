"""The efficiency of the cluster: the GPU time of all jobs as one bar, and how much incidents and idle jobs cost."""

import streamlit as st

from dashboards import formats, gpu_time
from dashboards.formats import share
from dashboards.http_requests import BACKGROUND, Unreachable
from dashboards.markup import numbers_html
from dashboards.views import panel, time_bar
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, counted

HOUR = 3600


def prefetch(context: ViewContext) -> None:
    """Send the requests while the banner is drawn."""
    for promql in gpu_time.QUERIES:
        panel.prefetch_at(promql, gpu_time.minute(context.now.time), context)
    BACKGROUND.submit(context.hub.incidents)


def show(context: ViewContext) -> None:
    """Draw the numbers, then the bar from the ideal to the real."""
    panel.heading("How efficient is the cluster?", "", "\n\n".join(gpu_time.QUERIES), context, context.span)
    numbers = {
        "Ideal, last 24 h": _ideal(gpu_time.LAST_DAY, context),
        "Ideal, 24 h before": _ideal(gpu_time.DAY_BEFORE, context),
        "Lost to incidents today": _lost(context),
        "Held by idle jobs so far": _held_idle(context),
    }
    st.html(numbers_html("zmon-cluster", numbers))
    seconds = gpu_time.seconds_of_jobs(context.now.jobs)
    if not sum(seconds.values()) > 0:
        panel.unknown("time", f"{UNKNOWN}: the hub knows no GPU time of a job")
        return
    what = f"of GPU time in {counted(len(context.now.jobs), 'job')}, over all launches"
    st.html(time_bar.html(time_bar.parts(seconds), what, _gpu_time))


def _gpu_time(seconds: float) -> str:
    return formats.gpu_time(seconds / HOUR)


def _ideal(promql: str, context: ViewContext) -> str:
    try:
        ratio = gpu_time.ideal_of_day(context.prometheus, promql, context.now.time)
    except Unreachable:
        return UNKNOWN
    return share(ratio) if ratio is not None else f"{UNKNOWN} <small>not recorded</small>"


def _held_idle(context: ViewContext) -> str:
    """Return for how long nothing has run on the GPUs that are held idle now, summed over these GPUs."""
    try:
        samples = context.prometheus.query_at(gpu_time.HELD_IDLE, gpu_time.minute(context.now.time))
    except Unreachable:
        return UNKNOWN
    return _gpu_time(samples[0].value) if samples else f"{UNKNOWN} <small>no agent knows who holds GPUs</small>"


def _lost(context: ViewContext) -> str:
    """Return the GPU time that incidents cost today, and how many of them have no known cost."""
    now = context.now
    try:
        lost = gpu_time.lost_today(context.hub.incidents(), (*now.findings, *now.elsewhere), now.as_of)
    except Unreachable:
        return UNKNOWN
    if lost.num_unknown == lost.num_incidents > 0:
        return UNKNOWN
    unknown = f", {lost.num_unknown} of unknown cost" if lost.num_unknown else ""
    return f"{formats.gpu_time(lost.gpu_hours)} <small>{counted(lost.num_incidents, 'incident')}{unknown}</small>"
