"""The banner of a page: the health of the job; if it is not healthy, also the culprit, the time and the next step.

The hub words the headline of the job. A page that is blind never shows HEALTHY.
"""

from collections import Counter
from dataclasses import replace
from html import escape

import streamlit as st

from dashboards.colours import GREEN, GREY, ORANGE, PURPLE, VERMILLION
from dashboards.formats import number
from dashboards.glance import Glance
from dashboards.markup import escaped_html, external_link, link, numbers_html
from dashboards.severity import CRITICAL, is_info
from dashboards.views import clock
from dashboards.views import finding as finding_view
from dashboards.views.context import ViewContext
from zmon.format import NONE, UNKNOWN, counted, duration, sentence
from zmon.schema.finding import Finding
from zmon.schema.job import BLIND, EXITED, NO_JOB, UNKNOWN_STATE, Headline, JobView

LOOKS = {  # by urgency of a headline, the most urgent first: sign and colour
    "critical": ("✖", VERMILLION),
    "warning": ("!", ORANGE),
    "unknown": ("?", GREY),
    "ok": ("✔", GREEN),
    "info": ("■", GREY),
    "none": ("–", GREY),
    "blind": ("?", PURPLE),
}
ENDED = ("done", EXITED)  # states in which a job has no processes, and therefore no speed

RECENT_SECONDS = 3600  # after its end by a fault, a job is the headline of the cluster for this long
MAX_ENDED_JOBS = 5  # the table of jobs has all of them
MAX_PAST_FINDINGS = 3  # the page Incidents has all past findings


def look(head: Headline) -> tuple[str, str]:
    """Return the sign and the colour of a headline."""
    return LOOKS.get(head.urgency, LOOKS[UNKNOWN_STATE.urgency])


def headline(glance: Glance) -> Headline:
    """Return the headline of the job, or that the page is blind or has no job.

    A page that is blind still shows a stall and critical headlines, except the end of a job that a blind hub knows: the
    job may have started again since then.
    """
    head = glance.job.headline if glance.job else UNKNOWN_STATE
    worst = main_finding(glance)
    may_be_old = head.ended and glance.hub_is_blind
    if (head.urgency == CRITICAL or head.word == "STALLED") and not may_be_old:
        return head
    if worst and worst.severity == CRITICAL:  # the hub has no headline of its job
        return Headline(CRITICAL.upper(), CRITICAL, worst.summary, worst.id, worst.as_of)
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
    worst = main_finding(context.now)
    head = headline(glance)
    if all_jobs and glance.jobs and (head.urgency in ("ok", "info") or head.ended) and not worst:
        head = BLIND if glance.blind else _summary_headline(glance)
        glance = replace(glance, job_id=None)
    word = (
        f'<p class="word" role="status"><span aria-hidden="true">{look(head)[0]}</span> {escape(head.word)}'
        f" <small>{escape(glance.job_id or '')}</small></p>"
    )
    notes = _blind_html(glance)
    if firing := [alert.alert for alert in glance.firing if alert.job_id in (None, glance.job_id)]:
        notes += f"<p>Alerts firing: {escape(', '.join(firing))}</p>"
    text = f"<p>{escaped_html((worst or head).text(glance.as_of))}</p>"
    ended = glance.job.ended if glance.job_id and glance.job else None
    if worst:
        culprit = finding_view.culprit_html(worst)
        _sections(glance, head, word + culprit + notes, text, finding_view.next_step_html(worst, context.address))
    elif ended:
        next_step = finding_view.ended_next_step_html(ended, context.address)
        _sections(glance, head, word + text + notes, next_step)
    else:
        _sections(glance, head, word + text + notes)


def below(context: ViewContext, *, all_jobs: bool = False) -> None:
    """Draw the details of the banner's finding, other findings, and those that were open at the time in the URL."""
    glance = context.now
    worst = main_finding(context.now)
    if worst:
        finding_view.details(worst, glance.time)
    for other in (*glance.findings, *glance.elsewhere):
        if other is worst:
            continue
        title = f"Also {other.severity} in {other.job_id}: {other.cause} {finding_view.culprit(other)}".strip()
        lead = link("job", finding_view.address_of(other, context.address).params(), "open")
        st.html(f'<p class="zmon-other"><b>{escape(title)}</b> · {escaped_html(other.text(glance.as_of))} · {lead}</p>')
    if all_jobs:
        _ended_jobs(context)
    _past_findings(context)


def _ended_jobs(context: ViewContext) -> None:
    """Draw a line for each job whose headline is its end by a fault."""
    ended = [job for job in context.now.jobs if job.headline.ended]
    for job in ended[:MAX_ENDED_JOBS]:
        lead = link("job", context.address.moved(job_id=job.job_id).params(), "open")
        text = escaped_html(job.headline.text(context.now.as_of))
        st.html(f'<p class="zmon-other" data-testid="zmon-ended"><b>{escape(job.job_id)}</b> {text} · {lead}</p>')
    if len(ended) > MAX_ENDED_JOBS:
        st.caption(f"{len(ended) - MAX_ENDED_JOBS} more jobs that a fault ended are in the table.")


def _summary_headline(glance: Glance) -> Headline:
    """Return the most urgent headline, and the number of jobs in each state.

    The end of a job by a fault is a headline only for a while, unless there is no other job.
    """
    states = Counter("failed" if job.has_failed else job.state for job in glance.jobs)
    counts = ", ".join(f"{num_jobs} {state}" for state, num_jobs in states.most_common())
    current = [job for job in glance.jobs if not _is_old(job, glance.as_of)] or glance.jobs
    head = min((job.headline for job in current), key=lambda head: [*LOOKS.values()].index(look(head)))
    return Headline(head.word, head.urgency, f"{counted(len(glance.jobs), 'job')}: {counts}")


def _is_old(job: JobView, now: float) -> bool:
    return job.ended is not None and now - job.ended.time > RECENT_SECONDS


def line(context: ViewContext) -> None:
    """Draw the banner in few lines, so that every page shows whether the job is stalled, and what to do next."""
    glance = context.now
    head = headline(context.now)
    worst = main_finding(glance)
    diagnosis = f"{worst.cause} {finding_view.culprit(worst)}".strip() if worst else head.text(glance.as_of)
    lead = link("job", context.address.moved(job_id=glance.job_id).params(), glance.job_id) if glance.job_id else ""
    sign = f'<b class="sign" role="status"><span aria-hidden="true">{look(head)[0]}</span> {escape(head.word)}</b>'
    reason = f"<p>{escaped_html(worst.text(glance.as_of))}</p>" if worst else ""
    advised = worst or (glance.job.ended if glance.job else None)
    next_step = f"<p><b>Do this next:</b> {escaped_html(advised.detail)}</p>" if advised and advised.detail else ""
    text = f"<p>{sign} {lead} · {escaped_html(diagnosis)}</p>{reason}"
    _sections(glance, head, f"{text}{next_step}{_blind_html(glance)}")
    _past_findings(context)


def _blind_html(glance: Glance) -> str:
    return "".join(f'<p class="blind">{escaped_html(line)}</p>' for line in glance.blind)


def _sections(glance: Glance, head: Headline, *parts: str) -> None:
    """Draw each part as a separate element, because an element that changes loses the text that a reader has selected.

    The time of the state is shown too, so that a reader notices if the page has lost its connection.
    """
    worst = main_finding(glance)
    cost = f", {finding_view.age_and_cost(worst, glance.as_of)}" if worst else ""
    with st.container(key="zmon-headline", gap=None):
        st.html(f'<p class="zmon-as-of" data-testid="zmon-as-of">as of {clock.html(glance.known_time)}{cost}</p>')
        for index, part in enumerate(parts):
            test_id = ' data-testid="zmon-banner"' if index == 0 else ""
            corners = (" first" if index == 0 else "") + (" last" if index == len(parts) - 1 else "")
            st.html(f'<section class="zmon-banner{corners}"{test_id} style="--tint:{look(head)[1]}">{part}</section>')


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
    resolved = [finding for finding in context.now.past if finding.resolved] if moment is not None else []
    for past in [finding for finding in resolved if finding_view.was_open(finding, moment)][:MAX_PAST_FINDINGS]:
        diagnosis = f"{past.cause} {finding_view.culprit(past)}".strip()
        lead = link("incidents", context.address.moved(incident=past.id).params(), "the incident")
        st.html(
            f'<p class="zmon-other" data-testid="zmon-then"><b>At {clock.html(moment)}: {escape(diagnosis)}</b>,'
            f" {finding_view.when(past)} · {escaped_html(past.summary)} · {lead}</p>"
        )


def vitals(context: ViewContext) -> None:
    """Draw the numbers of the job from the hub."""
    job = context.now.job
    step_time, rate = speed(job, context)
    known = context.now.hub_is_blind and job is not None
    notes = f'<p class="zmon-unknown">last known, as of {clock.html(context.now.known_time)}</p>' if known else ""
    progress = job.progress if job else None
    left = progress.left if progress else None
    numbers = {
        "Step": progress.steps_text if progress else number(job.step if job else None),
        "Step time": step_time,
        "Samples/s": rate,
        "Loss": _reported_figure(job.report if job else {}, "loss"),
        "Ranks watched": ranks_watched(job),
        **({"Time left": f"about {duration(left.seconds)}"} if left else {}),
    }
    if progress and progress.left_text:
        notes += f'<p class="zmon-unknown">{escape(sentence(progress.left_text.capitalize()))}</p>'
    if inference := shown_inference(job, context):
        notes += f'<p class="zmon-unknown">Samples/s: {escape(inference)}.</p>'
    if job and job.run_page:
        notes += f'<p class="zmon-other" data-testid="zmon-run-page">Run page: {external_link(job.run_page)}</p>'
    st.html(numbers_html("zmon-vitals", {label: escape(value) for label, value in numbers.items()}) + notes)


def speed(job: JobView | None, context: ViewContext) -> tuple[str, str]:
    """Return the texts for step time and samples per second.

    Both are "unknown" if the hub does not know the current state. For a stalled job, the text for step time is the
    duration of the stall, and the rate is 0. A job that starts, evaluates, saves or has ended has neither.
    """
    if job is not None and job.state in ENDED:
        return NONE, NONE
    if job is None or context.now.hub_is_blind or job.state == "unknown":
        return UNKNOWN, UNKNOWN
    if job.state == "train":
        inferred = " (inferred)" if shown_inference(job, context) else ""
        return duration(job.step_seconds), f"{number(job.samples_per_second)}{inferred}"
    if job.state != "stalled":
        return NONE, NONE
    stalls = [finding for finding in (*context.now.findings, *context.now.elsewhere) if finding.is_stall]
    since = [stall.onset for stall in stalls if stall.job_id == job.job_id]
    return f"none for {duration(max(0.0, context.now.as_of - min(since)))}" if since else "none", "0"


def shown_inference(job: JobView | None, context: ViewContext) -> str:
    """Return the source of the samples per second that `speed` shows; empty if they are not inferred, or not shown."""
    if job is None or context.now.hub_is_blind or job.state != "train" or job.samples_per_second is None:
        return ""
    return job.samples_inference


def ranks_watched(job: JobView | None) -> str:
    """Return how many ranks agents report; or that they are gone, if a fault ended the job."""
    if job is None:
        return UNKNOWN
    if job.has_failed:
        return f"{number(job.world_size)} gone"
    if job.state in ENDED:
        return NONE
    return f"{number(job.ranks_seen)} of {number(job.world_size)}"


def _reported_figure(report: dict[str, float | None], key: str) -> str:
    """Format a reported figure. The hub sends NaN as null, because JSON has no NaN."""
    return "NaN" if key in report and report[key] is None else number(report.get(key))
