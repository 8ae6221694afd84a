"""All of it: is any job in trouble, which jobs are there, what pages now, and how are the hosts?"""

from html import escape

import streamlit as st

from dashboards.colours import GREEN, GREY, ORANGE, VERMILLION
from dashboards.glance import Firing
from dashboards.severity import CRITICAL, WARNING
from dashboards.views import banner, finding, frame, hosts
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, link, share
from zmon.schema.finding import Finding
from zmon.schema.job import JobView

MOST_JOBS = 100
TINTS = {CRITICAL: VERMILLION, WARNING: ORANGE}
HEADS = ("", "job", "state", "finding", "step", "step time", "samples/s", "efficiency", "ranks seen")


def show(seen: Seen) -> None:
    """From what needs a look first to what is merely there."""
    frame.live(_now, seen)
    hosts.show(seen, of_all=True)


def _now(seen: Seen) -> None:
    banner.show(seen, of_all=True)
    _firing(seen)
    _jobs(seen)


def _firing(seen: Seen) -> None:
    if not seen.now.prometheus_answers:
        return
    st.markdown("#### What fires now?")
    if not seen.now.firing:
        st.html('<p class="zmon-unknown">No alert fires.</p>')
    lines = "".join(_alert(one, seen) for one in seen.now.firing)
    st.html(f'<ul class="zmon-list" data-testid="zmon-firing">{lines}</ul>')


def _alert(firing: Firing, seen: Seen) -> str:
    about = link("job", seen.address.moved(job_id=firing.job_id).params(), firing.job_id) if firing.job_id else "zmon"
    return (
        f'<li style="--tint:{TINTS.get(firing.severity, GREY)}"><b>{escape(firing.severity)}</b>'
        f" {escape(firing.alert)} · {about}</li>"
    )


def _jobs(seen: Seen) -> None:
    """A row each, those in trouble first."""
    st.markdown("#### Which jobs are there?")
    worst = {finding.job_id: finding for finding in reversed((*seen.now.findings, *seen.now.elsewhere))}
    known = {job.job_id: job for job in seen.now.jobs}
    order = sorted(seen.now.job_ids, key=lambda job_id: job_id not in worst)
    if not order:
        st.html(f'<p class="zmon-unknown">Jobs: {"none is known" if seen.now.hub_answers else UNKNOWN}.</p>')
        return
    rows = "".join(_row(job_id, known.get(job_id), worst.get(job_id), seen) for job_id in order[:MOST_JOBS])
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    st.html(
        f'<div class="zmon-table" data-testid="zmon-jobs"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    if len(order) > MOST_JOBS:
        st.caption(f"{len(order) - MOST_JOBS} more; choose one on the page Job.")


def _row(job_id: str, job: JobView | None, worst: Finding | None, seen: Seen) -> str:
    tint = TINTS.get(worst.severity, GREEN) if worst else GREEN
    if job is None or (seen.now.blind and not worst) or job.state in ("done", "exited", "unknown"):
        tint = GREY if not worst else tint
    wrong = f"{worst.cause} {finding.culprit(worst)}" if worst else "none" if seen.now.hub_answers else UNKNOWN
    cells = [
        link("job", seen.address.moved(job_id=job_id).params(), job_id),
        escape(job.state if job else UNKNOWN),
        escape(wrong),
        count(job.step if job else None),
        *banner.speed(job, seen),
        share(job.efficiency.ratio if job and job.efficiency else None),
        f"{count(job.ranks_seen if job else None)} of {count(job.world_size if job else None)}",
    ]
    return f'<tr><td style="--tint:{tint}"></td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
