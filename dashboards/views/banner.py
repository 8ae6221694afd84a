"""The first five seconds: is it healthy, and if not, who is to blame, since when, and what to do.

The word comes from the hub's findings and state; not being able to see comes before "healthy", never after it.
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st

from dashboards.charts import GREEN, GREY, ORANGE, PURPLE, VERMILLION
from dashboards.glance import Glance
from dashboards.words import UNKNOWN, clock, count, duration

_PACKAGE = Path(__file__).parents[1]  # a wheel has docs/ within it, a checkout beside it
RUNBOOKS = (_PACKAGE if (_PACKAGE / "docs").is_dir() else _PACKAGE.parent) / "docs" / "runbooks.md"

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
    state = (glance.job or {}).get("state")
    if worst and worst["severity"] == "critical":
        word = "STALLED" if worst["detector"] == "stall" else worst["detector"].upper()
        return Headline(word, "✖", VERMILLION, worst["summary"])
    if state == "stalled":
        return Headline(*STATES["stalled"])
    if glance.blind:
        return Headline("BLIND", "?", PURPLE, "zmon cannot see all of it: the job may be healthy or stalled")
    if glance.job_id is None:
        return Headline("NO JOB", "–", GREY, "no training job is known; start one with `make demo` or `zmon demo`")
    if glance.job is None:
        return Headline("UNKNOWN", "?", GREY, f"the hub knows no job {glance.job_id}; choose another below")
    if worst and worst["severity"] == "warning":
        return Headline("WARNING", "!", ORANGE, worst["summary"])
    return Headline(*STATES.get(state, NOT_TOLD))


def show(glance: Glance) -> None:
    """The banner, the runbook of its finding, the job's vital numbers, and what else is wrong."""
    said = headline(glance)
    pressing = [finding for finding in glance.findings if finding["severity"] != "info"]
    finding = pressing[0] if pressing else None
    lines = _blame(finding, glance.at) if finding else [f"<p>{_marked(said.line)}</p>"]
    lines += [f'<p class="blind">{_marked(line)}</p>' for line in glance.blind]
    if glance.firing:
        lines.append(f"<p>Alerts firing: {escape(', '.join(glance.firing))}</p>")
    st.html(
        f'<section class="zmon-banner" data-testid="zmon-banner" role="status" style="--tint:{said.colour}">'
        f'<p class="word"><span aria-hidden="true">{said.sign}</span> {said.word}'
        f" <small>{escape(glance.job_id or '')}</small></p>{''.join(lines)}</section>"
    )
    if finding:
        with st.expander(f"Runbook: {finding['cause']}"):
            st.markdown(runbook(finding["runbook"]))
        with st.expander("Evidence"):
            st.json(finding.get("evidence") or {})
    for other in [one for one in (*glance.findings, *glance.elsewhere) if one is not finding]:
        what = f"Also {other['severity']} in {other['job_id']}: {other['cause']} {culprit(other)}".strip()
        st.html(f'<p class="zmon-other"><b>{escape(what)}</b> · {_marked(other["summary"])}</p>')
    if glance.job_id:
        _vitals(glance, is_stalled=said.word == "STALLED")


def _blame(finding: dict, now: float) -> list[str]:
    """Who in letters to be read from the door; then why, since when, at what cost, and what to do."""
    lost = finding.get("lost_gpu_hours")
    cost = f" · {count(lost)} GPU-hours lost" if lost else ""
    since = f"since {clock(finding['onset'])}, {duration(now - finding['onset'])} ago"
    return [
        f'<p class="culprit">{escape(culprit(finding) or "nobody named")}</p>',
        f"<p><b>{escape(finding['cause'])}</b> · {since}{cost}</p>",
        f"<p>{_marked(finding['summary'])}</p>",
        f'<p class="next"><b>Do this next</b><br>{_marked(finding["detail"])}</p>',
    ]


def culprit(finding: dict) -> str:
    """rank 2 on node-1; a finding may name several, or none."""
    ranks, hosts = finding["ranks"], finding["hosts"]
    named = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}" if ranks else ""
    where = ", ".join(hosts)
    if named and where:
        return f"{named} on {where}"
    return named or where


def runbook(reference: str) -> str:
    """The section of docs/runbooks.md that a finding refers to, or where to look for it."""
    anchor = reference.partition("#")[2]
    try:
        text = RUNBOOKS.read_text(encoding="utf-8")
    except OSError:
        return f"See `{reference}` in the project."
    found = re.search(rf"^## {re.escape(anchor)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return found[1].strip() if found else f"See `{reference}` in the project."


def _vitals(glance: Glance, *, is_stalled: bool) -> None:
    """The job's numbers as the hub has them; while stalled, the last step time would be a lie."""
    job = glance.job or {}
    step_time, rate = duration(job.get("step_seconds")), count(job.get("samples_per_second"))
    if is_stalled:
        since = f" for {duration(glance.at - glance.findings[0]['onset'])}" if glance.findings else ""
        step_time, rate = f"none{since}", "0"
    numbers = {
        "Step": count(job.get("step")),
        "Step time": step_time,
        "Samples/s": rate,
        "Loss": count((job.get("report") or {}).get("loss")),
        "Ranks seen": f"{count(job.get('ranks_seen'))} of {count(job.get('world_size'))}" if job else UNKNOWN,
    }
    with st.container(horizontal=True, gap="medium"):
        for label, value in numbers.items():
            st.metric(label, value, width="content")


def _marked(text: str) -> str:
    """Escaped, with `commands` set as code and lines kept."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text)).replace("\n", "<br>")
