"""The numbers of a job from the hub: step, step time, rate, loss, ranks and time left."""

from html import escape

import streamlit as st

from dashboards.formats import number
from dashboards.markup import external_link, numbers_html
from dashboards.views import clock
from dashboards.views.context import ViewContext
from zmon.format import NONE, UNKNOWN, duration, sentence
from zmon.schema.job import EXITED, JobView

ENDED = ("done", EXITED)  # states in which a job has no processes, and therefore no speed


def show(context: ViewContext) -> None:
    """Draw the numbers of the job on the page."""
    job = context.now.job
    step_time, rate = speed(job, context)
    is_last_known = context.now.hub_is_blind and job is not None
    notes = ""
    if is_last_known:
        notes = f'<p class="zmon-unknown">last known, as of {clock.html(context.now.known_time)}</p>'
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

    Both are "–" for a job that has ended, starts, evaluates or saves. Both are "unknown" if the hub does not know the
    current state. For a stalled job, the text for step time is the duration of the stall, and the rate is 0.
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
