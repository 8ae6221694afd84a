"""The headline of a job: the most urgent of its findings, its end and its state, in one word and one line. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zmon.schema.finding import Finding, worst_first
from zmon.schema.job import EXITED, UNKNOWN_STATE, EndedJob, Headline, JobView

_STATES = {  # the state of a job without a finding; another one is an activity that only a newer rank knows
    "init": Headline("HEALTHY", "ok", "starting up"),
    "train": Headline("HEALTHY", "ok", "training"),
    "eval": Headline("HEALTHY", "ok", "evaluating"),
    "checkpoint": Headline("HEALTHY", "ok", "writing a checkpoint"),
    "compile": Headline("HEALTHY", "ok", "compiling the model"),
    "loader_start": Headline("HEALTHY", "ok", "starting a data loader"),
    "stalled": Headline("STALLED", "critical", "nothing moves; the culprit is not known yet"),
    "done": Headline("FINISHED", "info", "the job is done"),
    EXITED: Headline("ENDED", "info", "the job was stopped or has failed"),
    "unknown": UNKNOWN_STATE,
}


def headline(state: str, findings: Iterable[Finding], ended: EndedJob | None) -> Headline:
    """Return the first headline that applies. `findings` are the active ones of the job, `ended` is its end by a fault.

    The order is: a critical finding, a stalled job, a job that a fault ended, a warning, a fault that ended the launch
    before, the state of the job. A finding of severity info is no fault.
    """
    faults = [finding for finding in worst_first(findings) if finding.severity != "info"]
    worst = next(iter(faults), None)
    stall = next((fault for fault in faults if fault.is_stall), None)
    by_state = _STATES.get(state) or Headline("HEALTHY", "ok", state)
    if worst and worst.severity == "critical":
        stopped = "FAILED" if state == EXITED else "STALLED"
        return _about(worst, stopped if worst.is_stall else worst.detector.upper(), "critical")
    if state == "stalled":
        return _about(stall, "STALLED", "warning") if stall else by_state  # no finding has proven the stall yet
    if ended and state == EXITED:
        return _after(ended, "FAILED", "critical", "")
    if worst:
        return _about(worst, worst.severity.upper(), "warning")
    if ended:
        return _after(ended, "RESTARTED", "warning", f"{by_state.line}; the launch before ")
    return by_state


def with_headline(job: JobView, findings: Iterable[Finding]) -> JobView:
    """Return the view of a job with its headline. `findings` are the active ones of all jobs."""
    of_job = (finding for finding in findings if finding.job_id == job.job_id)
    shown = headline(job.state, of_job, job.ended)
    if job.uncompared and shown.urgency == "ok":
        shown = replace(shown, line=f"{shown.line}; {job.uncompared}")
    return replace(job, headline=shown)


def _about(finding: Finding, word: str, urgency: str) -> Headline:
    return Headline(word, urgency, finding.summary, finding.id, as_of=finding.as_of)


def _after(end: EndedJob, word: str, urgency: str, before: str) -> Headline:
    return Headline(word, urgency, f"{before}ended by {end.cause}: {end.summary}", end.finding, ended=end.time)
