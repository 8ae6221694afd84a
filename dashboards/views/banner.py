"""The first five seconds: is it healthy, and if not, who is to blame, since when, and what to do.

The word comes from the hub's findings and state; not being able to see comes before "healthy", never after it.
"""

from collections import Counter
from dataclasses import dataclass, replace
from html import escape

import streamlit as st

from dashboards.colours import GREEN, GREY, ORANGE, PURPLE, VERMILLION
from dashboards.glance import Glance
from dashboards.severity import CRITICAL, is_remark
from dashboards.views import finding
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, clock, count, duration, link, marked
from zmon.schema.finding import Finding
from zmon.schema.job import JobView

STATES = {  # the hub's state of a job without a finding
    "init": ("HEALTHY", "✔", GREEN, "starting up"),
    "train": ("HEALTHY", "✔", GREEN, "training"),
    "eval": ("HEALTHY", "✔", GREEN, "evaluating"),
    "checkpoint": ("HEALTHY", "✔", GREEN, "writing a checkpoint"),
    "stalled": ("STALLED", "✖", VERMILLION, "nothing moves; who is to blame is not known yet"),
    "done": ("FINISHED", "■", GREY, "the job came to its end"),
    "exited": ("ENDED", "■", GREY, "the job was ended from outside, or broke off"),
}
NOT_TOLD = ("UNKNOWN", "?", GREY, "the hub cannot tell what this job does")


MOST_THEN = 3  # findings of a moment that are told: the incidents have them all


@dataclass(frozen=True)
class Headline:
    """One word, its sign and colour, and the line beneath it."""

    word: str
    sign: str
    colour: str
    line: str


def headline(glance: Glance) -> Headline:
    """What matters most now: a fault, then blindness, then a warning, then the state of the job."""
    worst = glance.findings[0] if glance.findings else None
    state = glance.job.state if glance.job else None
    if worst and worst.severity == CRITICAL:
        word = "STALLED" if worst.is_stall else worst.detector.upper()
        return Headline(word, "✖", VERMILLION, worst.summary)
    if state == "stalled":
        return Headline(*STATES["stalled"])
    if glance.blind:
        return Headline("BLIND", "?", PURPLE, "zmon cannot see all of it: the job may be healthy or stalled")
    if glance.job_id is None:
        return Headline("NO JOB", "–", GREY, "no training job is known; start one with `make demo` or `zmon demo`")
    if glance.job is None:
        return Headline("UNKNOWN", "?", GREY, f"the hub knows no job {glance.job_id}; choose another below")
    if worst and not is_remark(worst.severity):
        return Headline(worst.severity.upper(), "!", ORANGE, worst.summary)
    if state in (None, "unknown"):
        return Headline(*NOT_TOLD)
    return Headline(*STATES.get(state, ("HEALTHY", "✔", GREEN, state)))  # the word of a newer hub is shown as it is


def show(seen: Seen, *, of_all: bool = False) -> None:
    """The banner, what goes with its finding, and what else is wrong or was when the link was made.

    `of_all`: where nothing is wrong it speaks of all jobs, not of the one that was looked at first.
    """
    glance, said = seen.now, headline(seen.now)
    if of_all and glance.jobs and said.word in ("HEALTHY", "FINISHED", "ENDED"):
        glance, said = replace(glance, job_id=None), _of_all(glance)
    worst = pressing(glance)
    word = (
        f'<p class="word" role="status"><span aria-hidden="true">{said.sign}</span> {escape(said.word)}'
        f" <small>{escape(glance.job_id or '')}</small></p>"
    )
    more = _blind(glance)
    if firing := [one.alert for one in glance.firing if one.job_id in (None, glance.job_id)]:
        more += f"<p>Alerts firing: {escape(', '.join(firing))}</p>"
    if worst:
        why = f"<p>{marked(worst.summary)}</p>"
        _sections(glance, said, word + finding.who(worst) + more, why, finding.next_step(worst, seen.address))
    else:
        _sections(glance, said, f"{word}<p>{marked(said.line)}</p>{more}")
    if worst:
        finding.more(worst, glance.at)
    for other in [one for one in (*glance.findings, *glance.elsewhere) if one is not worst]:
        what = f"Also {other.severity} in {other.job_id}: {other.cause} {finding.culprit(other)}".strip()
        lead = link("job", finding.there(other, seen.address).params(), "look")
        st.html(f'<p class="zmon-other"><b>{escape(what)}</b> · {marked(other.summary)} · {lead}</p>')
    _then(seen)


def _of_all(glance: Glance) -> Headline:
    """How many jobs are at what."""
    states = Counter(job.state for job in glance.jobs)
    alive = states.keys() - {"done", "exited"}
    word, sign, colour, _ = NOT_TOLD if "unknown" in states else STATES["train" if alive else "done"]
    each = ", ".join(f"{number} {state}" for state, number in states.most_common())
    return Headline(word, sign, colour, f"{len(glance.jobs)} job{'s' if len(glance.jobs) > 1 else ''}: {each}")


def line(seen: Seen) -> None:
    """The same in one line, for views that explain: nobody shall look at a chart and not know that the job stands."""
    glance, said = seen.now, headline(seen.now)
    worst = pressing(glance)
    what = f"{worst.cause} {finding.culprit(worst)}".strip() if worst else said.line
    lead = link("job", seen.address.moved(job_id=glance.job_id).params(), glance.job_id) if glance.job_id else ""
    sign = f'<b class="sign" role="status"><span aria-hidden="true">{said.sign}</span> {escape(said.word)}</b>'
    _sections(glance, said, f"<p>{sign} {lead} · {marked(what)}</p>{_blind(glance)}")
    _then(seen)


def _blind(glance: Glance) -> str:
    return "".join(f'<p class="blind">{marked(line)}</p>' for line in glance.blind)


def _sections(glance: Glance, said: Headline, *parts: str) -> None:
    """Each part is an element: one that changes takes with it what a reader has marked in it to copy.

    How fresh it all is stands beside it, for it moves: a page whose connection is lost says what it said last.
    """
    worst = pressing(glance)
    stands = f", {finding.toll(worst, glance.at)}" if worst else ""
    with st.container(key="zmon-headline", gap=None):
        st.html(f'<p class="zmon-as-of" data-testid="zmon-as-of">as of {clock(glance.at)}{stands}</p>')
        for place, part in enumerate(parts):
            known = ' data-testid="zmon-banner"' if place == 0 else ""
            ends = f"{'first ' * (place == 0)}{'last' * (place == len(parts) - 1)}"
            st.html(f'<section class="zmon-banner {ends}"{known} style="--tint:{said.colour}">{part}</section>')


def pressing(glance: Glance) -> Finding | None:
    """The finding that the banner is about."""
    return next((finding for finding in glance.findings if not is_remark(finding.severity)), None)


def _then(seen: Seen) -> None:
    """What stood at the moment that a link leads to, where it is over by now."""
    at = seen.address.at
    over = [] if at is None else [one for one in seen.now.past if one.resolved and finding.stood(one, at)]
    for one in over[:MOST_THEN]:
        who = f"{one.cause} {finding.culprit(one)}".strip()
        lead = link("incidents", seen.address.moved(incident=one.id).params(), "the incident")
        st.html(
            f'<p class="zmon-other" data-testid="zmon-then"><b>At {clock(at)}: {escape(who)}</b>,'
            f" {finding.when(one)} · {marked(one.summary)} · {lead}</p>"
        )


def vitals(seen: Seen) -> None:
    """The job's numbers as the hub has them."""
    job = seen.now.job
    step_time, rate = speed(job, seen)
    numbers = {
        "Step": count(job.step if job else None),
        "Step time": step_time,
        "Samples/s": rate,
        "Loss": _reported(job.report if job else {}, "loss"),
        "Ranks seen": f"{count(job.ranks_seen)} of {count(job.world_size)}" if job else UNKNOWN,
    }
    said = "".join(f"<div><dt>{label}</dt><dd>{escape(value)}</dd></div>" for label, value in numbers.items())
    st.html(f'<dl class="zmon-vitals" data-testid="zmon-vitals">{said}</dl>')


def speed(job: JobView | None, seen: Seen) -> tuple[str, str]:
    """Step time and samples a second, as long as it trains: the last ones of a job that does not would be a lie."""
    if job is None or seen.now.hub_is_blind or job.state == "unknown":
        return UNKNOWN, UNKNOWN
    if job.state == "train":
        return duration(job.step_seconds), count(job.samples_per_second)
    stalls = [one for one in (*seen.now.findings, *seen.now.elsewhere) if one.is_stall]
    since = [one.onset for one in stalls if one.job_id == job.job_id] if job.state == "stalled" else []
    return f"none for {duration(max(0.0, seen.now.at - min(since)))}" if since else "none", "0"


def _reported(report: dict[str, float | None], key: str) -> str:
    """JSON has no word for NaN: what a job reports that is no number comes as nothing."""
    return "NaN" if key in report and report[key] is None else count(report.get(key))
