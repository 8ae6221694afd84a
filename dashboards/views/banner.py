"""The banner of a page: the health of the job; if it is not healthy, also the culprit, the time and the next step.

The hub words the headline of the job. A page that is blind never shows HEALTHY.
"""

from collections import Counter
from dataclasses import replace
from html import escape
from typing import NamedTuple

import streamlit as st

from dashboards.colours import GREEN, GREY, ORANGE, PURPLE, VERMILLION
from dashboards.glance import Glance
from dashboards.markup import escaped_html, link
from dashboards.severity import CRITICAL, is_info
from dashboards.views import clock
from dashboards.views import finding as finding_view
from dashboards.views.context import ViewContext
from zmon.format import counted
from zmon.schema.finding import Finding
from zmon.schema.job import BLIND, NO_JOB, UNKNOWN_STATE, Headline, JobView

RECENT_SECONDS = 3600  # after its end by a fault, a job is the headline of the cluster for this long
MAX_ENDED_JOBS = 5  # the table of jobs has all of them
MAX_PAST_FINDINGS = 3  # the page Incidents has all past findings


class Look(NamedTuple):
    """The sign and the colour of a headline."""

    sign: str
    colour: str


LOOKS = {  # by urgency of a headline, the most urgent first
    "critical": Look("✖", VERMILLION),
    "warning": Look("!", ORANGE),
    "unknown": Look("?", GREY),
    "ok": Look("✔", GREEN),
    "info": Look("■", GREY),
    "none": Look("–", GREY),
    "blind": Look("?", PURPLE),
}


def look(head: Headline) -> Look:
    """Return the sign and the colour of a headline."""
    return LOOKS.get(head.urgency, LOOKS[UNKNOWN_STATE.urgency])


def headline(glance: Glance) -> Headline:
    """Return the headline of the job, or that the page is blind or has no job.

    A page that is blind still shows a stall and critical headlines. The exception is the end of a job while the hub is
    blind: the job may have started again since then.
    """
    head = glance.job.headline if glance.job else UNKNOWN_STATE
    main = main_finding(glance)
    may_be_old = head.ended and glance.hub_is_blind
    if (head.urgency == CRITICAL or head.word == "STALLED") and not may_be_old:
        return head
    if main and main.severity == CRITICAL:  # the hub has no headline of its job
        return Headline(CRITICAL.upper(), CRITICAL, main.summary, main.id, main.as_of)
    if glance.blind:
        return BLIND
    if glance.job_id is None:
        return NO_JOB
    if glance.job is None:
        return replace(UNKNOWN_STATE, line=f"the hub knows no job {glance.job_id}; choose another one below")
    return head


def show(context: ViewContext, *, all_jobs: bool = False) -> None:
    """Draw the banner. `all_jobs`: if no job has a fault, it counts all jobs instead of showing one of them."""
    glance = context.now
    main = main_finding(glance)
    head = headline(glance)
    is_quiet = not main and (head.urgency in ("ok", "info") or head.ended)
    if all_jobs and glance.jobs and is_quiet:
        head = BLIND if glance.blind else _summary_headline(glance)
        glance = replace(glance, job_id=None)
    word = (
        f'<p class="word" role="status"><span aria-hidden="true">{look(head).sign}</span> {escape(head.word)}'
        f" <small>{escape(glance.job_id or '')}</small></p>"
    )
    notes = _blind_html(glance)
    if firing := [alert.alert for alert in glance.firing if alert.job_id in (None, glance.job_id)]:
        notes += f"<p>Alerts firing: {escape(', '.join(firing))}</p>"
    text = f"<p>{escaped_html((main or head).text(glance.as_of))}</p>"
    ended = glance.job.ended if glance.job_id and glance.job else None
    if main:
        culprit = finding_view.culprit_html(main)
        _sections(glance, head, word + culprit + notes, text, finding_view.next_step_html(main, context.address))
    elif ended:
        next_step = finding_view.ended_next_step_html(ended, context.address)
        _sections(glance, head, word + text + notes, next_step)
    else:
        _sections(glance, head, word + text + notes)


def details(context: ViewContext, *, all_jobs: bool = False) -> None:
    """Draw the details of the banner's finding, and other findings: open ones, and those open at the time in the URL.

    `all_jobs`: also the jobs that a fault ended.
    """
    glance = context.now
    main = main_finding(glance)
    if main:
        finding_view.details(main, glance.time)
    for other in (*glance.findings, *glance.elsewhere):
        if other is main:
            continue
        title = f"Also {other.severity} in {other.job_id}: {other.cause} {finding_view.culprit(other)}".strip()
        job_link = link("job", finding_view.address_of(other, context.address).params(), "open")
        text = escaped_html(other.text(glance.as_of))
        st.html(f'<p class="zmon-other"><b>{escape(title)}</b> · {text} · {job_link}</p>')
    if all_jobs:
        _ended_jobs(context)
    _past_findings(context)


def _ended_jobs(context: ViewContext) -> None:
    """Draw a line for each job whose headline is its end by a fault."""
    ended = [job for job in context.now.jobs if job.headline.ended]
    for job in ended[:MAX_ENDED_JOBS]:
        job_link = link("job", context.address.moved(job_id=job.job_id).params(), "open")
        text = escaped_html(job.headline.text(context.now.as_of))
        st.html(f'<p class="zmon-other" data-testid="zmon-ended"><b>{escape(job.job_id)}</b> {text} · {job_link}</p>')
    if len(ended) > MAX_ENDED_JOBS:
        st.caption(f"{len(ended) - MAX_ENDED_JOBS} more jobs that a fault ended are in the table.")


def _summary_headline(glance: Glance) -> Headline:
    """Return the word of the most urgent headline with the number of jobs in each state.

    The end of a job by a fault is a headline only for a while, unless there is no other job.
    """
    states = Counter("failed" if job.has_failed else job.state for job in glance.jobs)
    counts = ", ".join(f"{num_jobs} {state}" for state, num_jobs in states.most_common())
    current = [job for job in glance.jobs if not _is_old(job, glance.as_of)] or glance.jobs
    most_urgent = min((job.headline for job in current), key=_place_in_looks)
    return Headline(most_urgent.word, most_urgent.urgency, f"{counted(len(glance.jobs), 'job')}: {counts}")


def _place_in_looks(head: Headline) -> int:
    """Return the place of a headline in the order of urgency, 0 for the most urgent one."""
    return list(LOOKS).index(head.urgency if head.urgency in LOOKS else UNKNOWN_STATE.urgency)


def _is_old(job: JobView, now: float) -> bool:
    """Return True if the job ended by a fault, too long ago to be the headline of the cluster."""
    return job.ended is not None and now - job.ended.time > RECENT_SECONDS


def line(context: ViewContext) -> None:
    """Draw the banner in few lines, so that every page shows whether the job is stalled, and what to do next."""
    glance = context.now
    head = headline(glance)
    main = main_finding(glance)
    diagnosis = f"{main.cause} {finding_view.culprit(main)}".strip() if main else head.text(glance.as_of)
    job_link = link("job", context.address.moved(job_id=glance.job_id).params(), glance.job_id) if glance.job_id else ""
    sign = f'<b class="sign" role="status"><span aria-hidden="true">{look(head).sign}</span> {escape(head.word)}</b>'
    reason = f"<p>{escaped_html(main.text(glance.as_of))}</p>" if main else ""
    fault = main or (glance.job.ended if glance.job else None)
    next_step = f"<p><b>Do this next:</b> {escaped_html(fault.detail)}</p>" if fault and fault.detail else ""
    text = f"<p>{sign} {job_link} · {escaped_html(diagnosis)}</p>{reason}"
    _sections(glance, head, f"{text}{next_step}{_blind_html(glance)}")
    _past_findings(context)


def _blind_html(glance: Glance) -> str:
    return "".join(f'<p class="blind">{escaped_html(reason)}</p>' for reason in glance.blind)


def _sections(glance: Glance, head: Headline, *parts: str) -> None:
    """Draw the time of the state, then each part as an element of its own.

    By the time, a reader notices a page that has lost its connection. An element that changes loses the text that a
    reader has selected, so the parts are not one element.
    """
    main = main_finding(glance)
    cost = f", {finding_view.age_and_cost(main, glance.as_of)}" if main else ""
    with st.container(key="zmon-headline", gap=None):
        st.html(f'<p class="zmon-as-of" data-testid="zmon-as-of">as of {clock.html(glance.known_time)}{cost}</p>')
        for index, part in enumerate(parts):
            test_id = ' data-testid="zmon-banner"' if index == 0 else ""
            corners = (" first" if index == 0 else "") + (" last" if index == len(parts) - 1 else "")
            st.html(
                f'<section class="zmon-banner{corners}"{test_id} style="--tint:{look(head).colour}">{part}</section>'
            )


def main_finding(glance: Glance) -> Finding | None:
    """Return the open finding that the headline is about, or None.

    Without a headline it is the worst finding. A hub that has just started knows no jobs, and an older hub sends no
    headlines.
    """
    head = glance.job.headline if glance.job else UNKNOWN_STATE
    faults = (finding for finding in glance.findings if not is_info(finding.severity))
    return next((finding for finding in faults if head == UNKNOWN_STATE or finding.id == head.finding), None)


def _past_findings(context: ViewContext) -> None:
    """Draw the findings that were open at the time in the URL and are resolved now."""
    moment = context.address.at
    resolved = [finding for finding in context.now.all_findings if finding.resolved] if moment is not None else []
    for past in [finding for finding in resolved if finding_view.was_open(finding, moment)][:MAX_PAST_FINDINGS]:
        diagnosis = f"{past.cause} {finding_view.culprit(past)}".strip()
        incident_link = link("incidents", context.address.moved(incident=past.id).params(), "the incident")
        st.html(
            f'<p class="zmon-other" data-testid="zmon-then"><b>At {clock.html(moment)}: {escape(diagnosis)}</b>,'
            f" {finding_view.when(past)} · {escaped_html(past.summary)} · {incident_link}</p>"
        )
