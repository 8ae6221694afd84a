"""Decide what people are told: one notice for each job and severity of its findings, one when all are over. Pure.

People are told about a critical finding once it has been open for some seconds, and about a warning after a minute:
most are over by then. A finding about ranks that died waits longer: its launch usually ends, and then people are told
about the end only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec
from msgspec import UNSET

from zmon.format import duration, listed
from zmon.schema.act import STEPS_AGAIN, Intent
from zmon.schema.ended_launch import CANCELLED, DONE, EndedLaunch
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.names import severity_order

CRITICAL_HOLD_SECONDS = 5.0
WARNING_HOLD_SECONDS = 60.0  # most warnings about pauses, debuggers and suspensions are over sooner (docs/drills.md)
DEATH_HOLD_SECONDS = 20.0  # an end is recorded 5 s after its last rank, and a launcher may need some seconds for that
_MAX_ENDED = 1000  # findings that the notice of an end covered and that are remembered; more than are open at a time
ENDS, FINDINGS, ACTS = "ends", "findings", "acts"  # the kinds of notices
_LEAST_SEVERITY = "warning"  # people are told about findings of this severity or a higher one
JobLabels = Mapping[str, Mapping[str, str]]  # the labels of jobs by job id


class Notice(msgspec.Struct, frozen=True):
    """An event of a job, in words."""

    id: str  # the same if the notice is made again
    kind: str  # ENDS, FINDINGS or ACTS
    job_id: str
    labels: Mapping[str, str]  # of the job
    title: str  # one line
    body: str
    outcome: str = ""  # of an end
    severity: str = ""  # of findings; if they are over, the highest that people were told about
    is_over: bool = False  # the findings are over

    @property
    def style(self) -> Literal["info", "success", "warning", "failure"]:
        """The type of the message for apprise. Many services show it as a colour."""
        if self.is_over or self.outcome in (DONE, STEPS_AGAIN):
            return "success"
        if self.kind == ENDS:
            return "info" if self.outcome == CANCELLED else "failure"
        return "failure" if severity_order(self.severity) > severity_order(_LEAST_SEVERITY) else "warning"


class OpenNotice(msgspec.Struct, frozen=True):
    """The notices so far about the open findings of a job."""

    severity: str  # the highest
    labels: Mapping[str, str]  # of the job; kept here, because no agent may report them when all findings are over


def end_notice(end: EndedLaunch) -> Notice:
    """Return the notice of the end of a launch."""
    outcome = end.outcome.replace("_", " ")
    steps = f"Steps {end.steps_text}, {end.world_size} ranks on {listed(end.hosts, 4)}"
    lines = [
        end.reason,
        steps if end.steps else "No step was done",
        end.next_step and f"Next: {end.next_step}",
        end.finding and f"Evidence: zmon incident {end.finding}, {end.runbook}",
    ]
    title = f"{end.job_id} {outcome} after {duration(end.seconds)}"
    body = "\n".join(filter(None, lines))
    return Notice(f"end {end.id}", ENDS, end.job_id, end.labels, title, body, outcome=end.outcome)


def act_notice(intent: Intent, labels: Mapping[str, str]) -> Notice:
    """Return the notice of an act that was done or refused, or of whether it helped."""
    lines = [
        f"Rule {intent.rule}, because of {intent.cause} ({intent.who}, proof: {intent.proof.replace('_', ' ')})",
        *intent.reasons,
        f"{duration(intent.outcome_seconds)} after the fault began" if intent.outcome_seconds is not None else "",
        f"Evidence: zmon incident {intent.finding}, docs/runbooks.md#{intent.cause}",
    ]
    title = f"{intent.job_id}: {intent.act.replace('_', ' ')} {intent.state}"
    name = f"act {intent.id} {intent.state}"
    body = "\n".join(filter(None, lines))
    return Notice(name, ACTS, intent.job_id, labels, title, body, outcome=intent.outcome, severity=intent.severity)


class Notices:
    """The notices about open findings. It remembers what people were told, so that nobody gets a second message."""

    def __init__(self, open_notices: Mapping[str, OpenNotice] | None = None) -> None:
        self.open_notices = dict(open_notices or {})  # by job id
        self._open_since: dict[str, float] = {}  # by id of the finding, on the clock as it is set now
        self._ended: deque[str] = deque(maxlen=_MAX_ENDED)  # ids of findings that the notice of an end covered

    def finding_notices(
        self, findings: Iterable[Finding], labels: JobLabels, ended_jobs: Collection[str], now: float
    ) -> list[Notice]:
        """Return the notices about findings that are due now.

        Findings of `ended_jobs` are left out, because the notices of ends tell about them.
        """
        notable = [f for f in findings if severity_order(f.severity) >= severity_order(_LEAST_SEVERITY)]
        self._open_since = {f.id: self._open_since.get(f.id, min(f.detected, now)) for f in notable}
        candidates = [f for f in notable if f.job_id not in ended_jobs and f.id not in self._ended]
        due = [f for f in candidates if now - self._open_since[f.id] >= _hold_seconds(f)]
        notices = []
        for job_id, finding in _worst_by_job(due).items():
            known = self.open_notices.get(job_id)
            if known is None or severity_order(finding.severity) > severity_order(known.severity):
                self.open_notices[job_id] = OpenNotice(finding.severity, labels.get(job_id, {}))
                notices.append(_finding_notice(finding, labels.get(job_id, {}), now))
        active = {finding.job_id for finding in notable}
        for job_id in self.open_notices.keys() - active - set(ended_jobs):
            notice = self.open_notices.pop(job_id)
            notices.append(_over_notice(job_id, labels.get(job_id, notice.labels), notice.severity, now))
        return notices

    def move_times(self, seconds: float) -> None:
        """Move the times since when findings are open, because the clock was moved by these seconds."""
        self._open_since = {name: since + seconds for name, since in self._open_since.items()}

    def record_end(self, end: EndedLaunch) -> Notice:
        """Return the notice of an end. Nothing more is told about earlier findings of the job."""
        self.open_notices.pop(end.job_id, None)
        self._ended.append(end.finding)
        return end_notice(end)


def _worst_by_job(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Return the finding of the highest severity of each job; the first one among equals."""
    worst: dict[str, Finding] = {}
    for finding in findings:
        known = worst.setdefault(finding.job_id, finding)
        if severity_order(finding.severity) > severity_order(known.severity):
            worst[finding.job_id] = finding
    return worst


def _hold_seconds(finding: Finding) -> float:
    """Return for how long a finding must be open before it is told."""
    if severity_order(finding.severity) <= severity_order(_LEAST_SEVERITY):
        return WARNING_HOLD_SECONDS
    evidence = finding.evidence_of(StallEvidence)
    has_death = evidence.exit_status is not UNSET or evidence.last_words is not UNSET
    return DEATH_HOLD_SECONDS if finding.is_stall and has_death else CRITICAL_HOLD_SECONDS


def _finding_notice(finding: Finding, labels: Mapping[str, str], now: float) -> Notice:
    ranks = f"rank {listed([str(rank) for rank in finding.ranks])}" if finding.ranks else ""
    who = ", ".join(filter(None, (ranks, listed(list(dict.fromkeys(finding.hosts)), 4))))
    hours = finding.lost_gpu_hours
    lines = [
        finding.text(now),
        f"Who: {who or 'unknown'} (confidence {finding.confidence:.0%}), for {duration(now - finding.onset)}",
        f"Cost so far: {hours:.1f} GPU hours" if hours is not None else "",
        f"Next: {finding.detail}",
        f"Evidence: zmon incident {finding.id}, {finding.runbook}",
    ]
    title = f"{finding.severity.upper()} {finding.cause}, job {finding.job_id}"
    name = f"finding {finding.id} {finding.severity}"
    body = "\n".join(filter(None, lines))
    return Notice(name, FINDINGS, finding.job_id, labels, title, body, severity=finding.severity)


def _over_notice(job_id: str, labels: Mapping[str, str], severity: str, now: float) -> Notice:
    """Return the notice that all findings about a job are over; `severity`: the highest that people were told about."""
    title, body = f"{job_id}: resolved", "All findings about the job are over."
    return Notice(f"over {job_id} {int(now)}", FINDINGS, job_id, labels, title, body, severity=severity, is_over=True)
