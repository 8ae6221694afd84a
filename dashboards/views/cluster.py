"""The page Cluster: jobs in trouble, the GPU time of all jobs, alerts that fire, all jobs, and how busy hosts are."""

from html import escape

import streamlit as st

from dashboards.colours import GREY, ORANGE, VERMILLION
from dashboards.formats import efficiency, number
from dashboards.glance import Firing
from dashboards.markup import escaped_html, link, row_html, table_html
from dashboards.panels import cluster as panels
from dashboards.severity import CRITICAL, WARNING
from dashboards.views import banner, clock, cluster_time, ends, frame, panel, vitals
from dashboards.views.context import ViewContext
from dashboards.views.finding import culprit
from zmon.format import NONE, UNKNOWN, duration
from zmon.schema.finding import Finding
from zmon.schema.job import JobView

MAX_JOBS = 100
TINTS = {CRITICAL: VERMILLION, WARNING: ORANGE}
HEADS = ("", "job", "state", "finding", "step", "step time", "samples/s", "efficiency", "ranks watched")


def show(context: ViewContext) -> None:
    """Draw the page; the most urgent part comes first."""
    cluster_time.prefetch(context)
    panel.prefetch(panels.PANELS, context)
    frame.live(_draw_banner, context)
    cluster_time.show(context)
    frame.live(_draw_jobs, context)
    with st.container(key="zmon-choices"):
        frame.time_range(context.address)
    panel.grid(panels.PANELS, context)


def _draw_banner(context: ViewContext) -> None:
    banner.show(context, all_jobs=True)
    banner.details(context, all_jobs=True)


def _draw_jobs(context: ViewContext) -> None:
    _firing(context)
    _jobs(context)
    ends.show(context)


def _firing(context: ViewContext) -> None:
    if not context.now.prometheus_answers:
        return
    st.markdown("#### Which alerts fire now?")
    if not context.now.firing:
        st.html('<p class="zmon-unknown">No alert fires.</p>')
        return
    lines = "".join(_alert(firing, context) for firing in context.now.firing)
    st.html(f'<ul class="zmon-list" data-testid="zmon-firing">{lines}</ul>')


def _alert(firing: Firing, context: ViewContext) -> str:
    job_id = firing.job_id
    subject = link("job", context.address.moved(job_id=job_id).params(), job_id) if job_id else "zmon"
    return (
        f'<li style="--tint:{TINTS.get(firing.severity, GREY)}"><b>{escape(firing.severity)}</b>'
        f" {escape(firing.alert)} · {subject}</li>"
    )


def _jobs(context: ViewContext) -> None:
    """Draw a row for each job, first those with findings, then those that a fault ended."""
    st.markdown("#### Which jobs are there?")
    findings = (*context.now.findings, *context.now.elsewhere)  # the most severe of each job first
    worst = {finding.job_id: finding for finding in reversed(findings)}
    views = {job.job_id: job for job in context.now.jobs}
    ended = {job.job_id for job in context.now.jobs if job.ended}
    order = sorted(context.now.job_ids, key=lambda job_id: (job_id not in worst, job_id not in ended))
    if not order:
        st.html(f'<p class="zmon-unknown">Jobs: {"none is known" if context.now.hub_answers else UNKNOWN}.</p>')
        return
    rows = (_row(job_id, views.get(job_id), worst.get(job_id), context) for job_id in order[:MAX_JOBS])
    st.html(table_html("zmon-jobs", HEADS, rows))
    if context.now.hub_is_blind:
        st.html(f'<p class="zmon-unknown">Last known, as of {clock.html(context.now.known_time)}.</p>')
    if len(order) > MAX_JOBS:
        st.caption(f"{len(order) - MAX_JOBS} more jobs: choose one on the page Job.")


def _row(job_id: str, job: JobView | None, worst: Finding | None, context: ViewContext) -> str:
    tint = TINTS.get(worst.severity, GREY) if worst else GREY
    if job and (job.headline.is_urgent or not context.now.blind):  # a blind page shows no job as healthy
        tint = banner.look(job.headline).colour
    if worst:
        diagnosis = f"{worst.cause} {culprit(worst)}"
    elif job and job.ended:
        diagnosis = f"{job.ended.cause}, ended {duration(context.now.as_of - job.ended.time)} ago"
    else:
        diagnosis = "none" if context.now.hub_answers else UNKNOWN
    state = job.state if job else UNKNOWN
    cells = [
        link("job", context.address.moved(job_id=job_id).params(), job_id),
        escape("failed" if job and job.has_failed else state),
        escape(diagnosis),
        number(job.step if job else None),
        *vitals.speed(job, context),
        escaped_html(_efficiency(job)),
        vitals.ranks_watched(job),
    ]
    return row_html(cells, tint)


def _efficiency(job: JobView | None) -> str:
    if job and job.state in vitals.ENDED:
        return NONE
    measured = job.efficiency if job else None
    return efficiency(measured.ratio, measured.reference) if measured else UNKNOWN
