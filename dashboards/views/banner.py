"""The banner of a page: the health of the job; if it is not healthy, also the culprit, the time and the next step.

Its word comes from the findings and the job's state in the hub. A page that is blind never shows HEALTHY.
"""

from collections import Counter
from dataclasses import dataclass, replace
from html import escape

import streamlit as st

from dashboards.colours import GREEN, GREY, ORANGE, PURPLE, VERMILLION
from dashboards.glance import Glance
from dashboards.severity import CRITICAL, is_info
from dashboards.views import finding as finding_view
from dashboards.views.context import ViewContext
from dashboards.words import clock, escaped_html, link, number
from zmon.format import NONE, UNKNOWN, duration
from zmon.schema.finding import Finding
from zmon.schema.job import EXITED, JobView

STATES = {  # by state of a job without a finding: word, sign, colour, line
    "init": ("HEALTHY", "✔", GREEN, "starting up"),
    "train": ("HEALTHY", "✔", GREEN, "training"),
    "eval": ("HEALTHY", "✔", GREEN, "evaluating"),
    "checkpoint": ("HEALTHY", "✔", GREEN, "writing a checkpoint"),
    "compile": ("HEALTHY", "✔", GREEN, "compiling the model"),
    "loader_start": ("HEALTHY", "✔", GREEN, "starting a data loader"),
    "stalled": ("STALLED", "✖", VERMILLION, "nothing moves; the culprit is not known yet"),
    "done": ("FINISHED", "■", GREY, "the job is done"),
    "exited": ("ENDED", "■", GREY, "the job was stopped or has failed"),
}
ENDED = ("done", EXITED)  # states in which a job has no processes, and therefore no speed
FAILED = "FAILED"  # the word of a job that a fault ended
UNKNOWN_STATE = ("UNKNOWN", "?", GREY, "the hub does not know the state of this job")

MAX_ENDED_JOBS = 5  # the table of jobs has all of them
MAX_PAST_FINDINGS = 3  # the page Incidents has all past findings


@dataclass(frozen=True)
class Headline:
    """The word of the banner with its sign and colour, and the line below it."""

    word: str
    sign: str
    colour: str
    line: str


BLIND = Headline("BLIND", "?", PURPLE, "zmon does not see everything: the job may be healthy or stalled")


def headline(glance: Glance) -> Headline:
    """Return the most urgent headline.

    The first of these that applies: a critical finding, a stalled job, a job that a fault ended, blindness, no job, a
    job that the hub does not know, a warning, a fault that ended the launch before, the state of the job."""
    worst = glance.findings[0] if glance.findings else None
    state = glance.job.state if glance.job else None
    if worst and worst.severity == CRITICAL:
        word = "STALLED" if worst.is_stall else worst.detector.upper()
        word = FAILED if worst.is_stall and state == "exited" else word
        return Headline(word, "✖", VERMILLION, worst.text(glance.as_of))
    if state == "stalled":
        if worst and worst.is_stall and not is_info(worst.severity):  # it has not been proven yet
            return Headline("STALLED", "!", ORANGE, worst.summary)
        return Headline(*STATES["stalled"])
    if glance.job and glance.job.has_failed and not glance.hub_is_blind:
        return _ended_headline(glance.job, glance.time)  # the hub knows it, whatever else does not answer
    if glance.blind:
        return BLIND
    if glance.job_id is None:
        return Headline("NO JOB", "–", GREY, "no training job is known; start one with `make demo` or `zmon demo`")
    if glance.job is None:
        return Headline("UNKNOWN", "?", GREY, f"the hub knows no job {glance.job_id}; choose another one below")
    if worst and not is_info(worst.severity):
        return Headline(worst.severity.upper(), "!", ORANGE, worst.text(glance.as_of))
    if glance.job.ended:
        return _ended_headline(glance.job, glance.as_of)
    if state in (None, "unknown"):
        return Headline(*UNKNOWN_STATE)
    return Headline(*STATES.get(state, ("HEALTHY", "✔", GREEN, state)))  # a state of a newer hub is shown unchanged


def _ended_headline(job: JobView, now: float) -> Headline:
    """Return the headline of a job that a fault ended, or whose next launch has not finished a step yet."""
    line = ended_text(job, now)
    if job.has_failed:
        return Headline(FAILED, "✖", VERMILLION, line)
    _, _, _, doing = STATES.get(job.state, ("", "", "", job.state))
    return Headline("RESTARTED", "!", ORANGE, f"{doing}; {line}")


def ended_text(job: JobView, now: float) -> str:
    """Return when and why the last launch of the job ended; "" if no fault ended it."""
    if job.ended is None:
        return ""
    who = "" if job.has_failed else "the launch before "
    return f"{who}ended {duration(max(0.0, now - job.ended.time))} ago by {job.ended.cause}: {job.ended.summary}"


def show(context: ViewContext, *, all_jobs: bool = False) -> None:
    """Draw the banner, the details of its finding, other findings, and those that were open at the time in the URL.

    `all_jobs`: if no job has a fault, the banner counts all jobs instead of showing one of them.
    """
    glance, head, worst = context.now, headline(context.now), main_finding(context.now)
    if all_jobs and glance.jobs and head.word in ("HEALTHY", "FINISHED", "ENDED", FAILED, "RESTARTED") and not worst:
        glance, head = replace(glance, job_id=None), BLIND if glance.blind else _summary_headline(glance)
    word = (
        f'<p class="word" role="status"><span aria-hidden="true">{head.sign}</span> {escape(head.word)}'
        f" <small>{escape(glance.job_id or '')}</small></p>"
    )
    notes = _blind_html(glance)
    if firing := [alert.alert for alert in glance.firing if alert.job_id in (None, glance.job_id)]:
        notes += f"<p>Alerts firing: {escape(', '.join(firing))}</p>"
    if worst:
        summary = f"<p>{escaped_html(worst.text(glance.as_of))}</p>"
        _sections(
            glance,
            head,
            word + finding_view.culprit_html(worst) + notes,
            summary,
            finding_view.next_step_html(worst, context.address),
        )
    elif glance.job_id and glance.job and glance.job.ended:
        next_step = finding_view.ended_next_step_html(glance.job.ended, context.address)
        _sections(glance, head, f"{word}<p>{escaped_html(head.line)}</p>{notes}", next_step)
    else:
        _sections(glance, head, f"{word}<p>{escaped_html(head.line)}</p>{notes}")
    if worst:
        finding_view.details(worst, glance.time)
    for other in [each for each in (*glance.findings, *glance.elsewhere) if each is not worst]:
        title = f"Also {other.severity} in {other.job_id}: {other.cause} {finding_view.culprit(other)}".strip()
        lead = link("job", finding_view.address_of(other, context.address).params(), "open")
        st.html(f'<p class="zmon-other"><b>{escape(title)}</b> · {escaped_html(other.text(glance.as_of))} · {lead}</p>')
    if all_jobs:
        _ended_jobs(context)
    _past_findings(context)


def _ended_jobs(context: ViewContext) -> None:
    """Draw a line for each job that a fault ended whose finding has resolved."""
    open_ids = {finding.id for finding in (*context.now.findings, *context.now.elsewhere)}
    ended = [job for job in context.now.jobs if job.ended and job.ended.finding not in open_ids]
    for job in ended[:MAX_ENDED_JOBS]:
        lead = link("job", context.address.moved(job_id=job.job_id).params(), "open")
        text = escaped_html(ended_text(job, context.now.as_of))
        st.html(f'<p class="zmon-other" data-testid="zmon-ended"><b>{escape(job.job_id)}</b> {text} · {lead}</p>')
    if len(ended) > MAX_ENDED_JOBS:
        st.caption(f"{len(ended) - MAX_ENDED_JOBS} more jobs that a fault ended are in the table.")


def _summary_headline(glance: Glance) -> Headline:
    """Return a headline with the number of jobs in each state."""
    states = Counter("failed" if job.has_failed else job.state for job in glance.jobs)
    alive = states.keys() - {"done", "exited", "failed"}
    word, sign, colour, _ = UNKNOWN_STATE if "unknown" in states else STATES["train" if alive else "done"]
    if any(job.ended for job in glance.jobs):
        word, sign, colour = FAILED, "✖", ORANGE if alive else VERMILLION
    counts = ", ".join(f"{num_jobs} {state}" for state, num_jobs in states.most_common())
    return Headline(word, sign, colour, f"{len(glance.jobs)} job{'s' if len(glance.jobs) > 1 else ''}: {counts}")


def line(context: ViewContext) -> None:
    """Draw the banner in one line, so that every page with charts shows whether the job is stalled."""
    glance, head = context.now, headline(context.now)
    worst = main_finding(glance)
    diagnosis = f"{worst.cause} {finding_view.culprit(worst)}".strip() if worst else head.line
    lead = link("job", context.address.moved(job_id=glance.job_id).params(), glance.job_id) if glance.job_id else ""
    sign = f'<b class="sign" role="status"><span aria-hidden="true">{head.sign}</span> {escape(head.word)}</b>'
    _sections(glance, head, f"<p>{sign} {lead} · {escaped_html(diagnosis)}</p>{_blind_html(glance)}")
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
        st.html(f'<p class="zmon-as-of" data-testid="zmon-as-of">as of {clock(glance.known_time)}{cost}</p>')
        for index, part in enumerate(parts):
            test_id = ' data-testid="zmon-banner"' if index == 0 else ""
            ends = f"{'first ' * (index == 0)}{'last' * (index == len(parts) - 1)}"
            st.html(f'<section class="zmon-banner {ends}"{test_id} style="--tint:{head.colour}">{part}</section>')


def main_finding(glance: Glance) -> Finding | None:
    """Return the finding that the banner shows, or None."""
    return next((finding for finding in glance.findings if not is_info(finding.severity)), None)


def _past_findings(context: ViewContext) -> None:
    """Draw the findings that were open at the time in the URL and are resolved now."""
    moment = context.address.at
    resolved = [each for each in context.now.past if each.resolved] if moment is not None else []
    for past in [each for each in resolved if finding_view.was_open(each, moment)][:MAX_PAST_FINDINGS]:
        diagnosis = f"{past.cause} {finding_view.culprit(past)}".strip()
        lead = link("incidents", context.address.moved(incident=past.id).params(), "the incident")
        st.html(
            f'<p class="zmon-other" data-testid="zmon-then"><b>At {clock(moment)}: {escape(diagnosis)}</b>,'
            f" {finding_view.when(past)} · {escaped_html(past.summary)} · {lead}</p>"
        )


def vitals(context: ViewContext) -> None:
    """Draw the numbers of the job from the hub."""
    job = context.now.job
    step_time, rate = speed(job, context)
    known = context.now.hub_is_blind and job is not None
    notes = f'<p class="zmon-unknown">last known, as of {clock(context.now.known_time)}</p>' if known else ""
    numbers = {
        "Step": number(job.step if job else None),
        "Step time": step_time,
        "Samples/s": rate,
        "Loss": _reported(job.report if job else {}, "loss"),
        "Ranks watched": ranks_watched(job),
    }
    if inference := shown_inference(job, context):
        notes += f'<p class="zmon-unknown">Samples/s: {escape(inference)}.</p>'
    items = "".join(f"<div><dt>{label}</dt><dd>{escape(value)}</dd></div>" for label, value in numbers.items())
    st.html(f'<dl class="zmon-vitals" data-testid="zmon-vitals">{items}</dl>{notes}')


def speed(job: JobView | None, context: ViewContext) -> tuple[str, str]:
    """Return the texts for step time and samples per second.

    Both are "unknown" if the hub does not know the current state. A stalled job has no step time, with the duration of
    the stall, and trains on 0 samples. A job that starts, evaluates, saves or has ended has neither."""
    if job is not None and job.state in ENDED:
        return NONE, NONE
    if job is None or context.now.hub_is_blind or job.state == "unknown":
        return UNKNOWN, UNKNOWN
    if job.state == "train":
        inferred = " (inferred)" if shown_inference(job, context) else ""
        return duration(job.step_seconds), f"{number(job.samples_per_second)}{inferred}"
    if job.state != "stalled":
        return NONE, NONE
    stalls = [each for each in (*context.now.findings, *context.now.elsewhere) if each.is_stall]
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


def _reported(report: dict[str, float | None], key: str) -> str:
    """Format a reported figure. The hub sends NaN as null, because JSON has no NaN."""
    return "NaN" if key in report and report[key] is None else number(report.get(key))
