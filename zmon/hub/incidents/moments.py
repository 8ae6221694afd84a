"""The moments of an incident's timeline. Pure.

All times are on the hub's clock. Times from another host are corrected by the offset of its clock and marked. If the
offset is unknown, they are only marked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zmon.format import listed
from zmon.job.facts import facts_of
from zmon.schema.act import Intent
from zmon.schema.finding import Finding
from zmon.schema.host import KernelEvent
from zmon.schema.incident import IncidentSummary, TimelineEvent
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

BEFORE_SECONDS = 600.0  # kernel messages from longer before the first sign have other causes
_NOTABLE_SECONDS = 0.5  # smaller clock offsets are not marked, since the request itself takes some time
_MAX_TEXT = 300  # characters of one moment, so that a timeline has short lines
MAX_MOMENTS = 200  # moments of one timeline, because a finding may flicker for hours


@dataclass(frozen=True, slots=True)
class HostClock:
    """The offset of a host's clock from the hub's."""

    host: str
    ahead_seconds: float | None = None  # None: unknown

    def moment(self, time: float, text: str, subject: str) -> TimelineEvent:
        """Return a moment that the host recorded at `time`, on the hub's clock if the offset is known."""
        line = _one_line(text)
        ahead = self.ahead_seconds
        if ahead is None:
            return TimelineEvent(time, line, subject, f"time of {self.host}'s clock, not corrected")
        if abs(ahead) < _NOTABLE_SECONDS:
            return TimelineEvent(time - ahead, line, subject)
        clock = f"{self.host}'s clock is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}: corrected"
        return TimelineEvent(time - ahead, line, subject, clock)


def opening(finding: Finding) -> Iterator[TimelineEvent]:
    """Yield the first sign and the opening of the finding."""
    step = "" if finding.step is None else f" at step {finding.step}"
    culprits = culprit_names(finding)
    yield TimelineEvent(finding.onset, f"first sign{step}", culprits)
    yield TimelineEvent(finding.detected, f"finding opened: {finding.cause}, {finding.severity}", culprits)


@dataclass(frozen=True, slots=True)
class Suspected:
    """A suspicion that an agent raised, and that the hub received at `time`."""

    time: float
    rank: int
    reason: str
    host: str


def suspicions(suspected: Iterable[Suspected], finding: Finding) -> Iterator[TimelineEvent]:
    """Yield one moment for each reason: the first suspicion of a culprit, or else of any rank."""
    by_reason: dict[str, list[Suspected]] = {}
    for suspect in suspected:
        by_reason.setdefault(suspect.reason, []).append(suspect)
    for reason, suspects in by_reason.items():
        first = min(suspects, key=lambda suspect: (suspect.rank not in finding.ranks, suspect.time, suspect.rank))
        and_more = f" and {len(suspects) - 1} more" if len(suspects) > 1 else ""
        subject = f"rank {first.rank}{and_more}, by the agent on {first.host}"
        yield TimelineEvent(first.time, f"suspected: {reason}", subject)


def diagnosis_changes(before: Finding, now: Finding, time: float) -> Iterator[TimelineEvent]:
    """Yield a moment if cause or culprits have changed."""
    if before.cause != now.cause:
        yield TimelineEvent(time, f"diagnosis changed: {before.cause} → {now.cause}", culprit_names(now))
    elif (before.ranks, before.hosts) != (now.ranks, now.hosts):
        yield TimelineEvent(time, "culprits changed", culprit_names(now))


def severity_changes(before: Finding, now: Finding, time: float) -> Iterator[TimelineEvent]:
    """Yield a moment if the severity has changed."""
    if before.severity != now.severity:
        pages = "; it pages from now on" if now.severity == "critical" else ""
        yield TimelineEvent(time, f"severity: {before.severity} → {now.severity}{pages}", culprit_names(now))


def evidence_gathered(time: float, finding: Finding) -> TimelineEvent:
    """Return the moment at which evidence was gathered; its text lists the kinds of evidence."""
    stacks, stderr_tails = finding.evidence.stacks or {}, finding.evidence.stderr_tail or {}
    arrived = {
        "stacks": any(stack.stack for stack in stacks.values()),
        "flight records": bool(finding.evidence.in_flight),
        "last lines": any(tail.text for tail in stderr_tails.values()),
    }
    names = [name for name, present in arrived.items() if present]
    return TimelineEvent(time, f"evidence gathered: {', '.join([*names, 'steps'])}", "the hub")


def resolution(finding: Finding) -> TimelineEvent:
    """Return the moment at which the finding resolved."""
    time = finding.resolved or finding.detected
    return TimelineEvent(time, f"resolved, {time - finding.onset:.1f} s after the first sign", "the hub")


def act_moment(intent: Intent, time: float) -> TimelineEvent:
    """Return the moment at which an act was done or refused, or at which its outcome became known."""
    reason = "" if intent.outcome else f": {'; '.join(intent.reasons)}"[:_MAX_TEXT]
    return TimelineEvent(
        time, f"act: {intent.act.replace('_', ' ')}, {intent.state}{reason}", f"zmon, rule {intent.rule}"
    )


def kernel_events(events: Iterable[KernelEvent], clock: HostClock, since: float) -> Iterator[TimelineEvent]:
    """Yield the kernel messages of a host about GPUs, memory and links, from ten minutes before `since` on."""
    for event in events:
        moment = clock.moment(event.time, f"kernel: {event.text}", clock.host)
        if moment.time >= since - BEFORE_SECONDS:
            yield moment


def rank_moments(snapshot: Snapshot, ranks: Iterable[RankState]) -> Iterator[TimelineEvent]:
    """Yield what happened to these ranks, at the times from which the detectors infer what came first."""
    for fact in facts_of(snapshot, ranks):
        line = _one_line(f"{fact.kind.value}{f': {fact.text}' if fact.text else ''}")
        subject = fact.host if fact.rank is None else f"rank {fact.rank} on {fact.host}"
        yield TimelineEvent(snapshot.time + fact.latest, line, subject)


def culprit_names(finding: Finding | IncidentSummary) -> str:
    """Return the culprits in a few words: ranks and their hosts, else hosts, else “no culprit”."""
    if finding.ranks:
        pairs = [f"rank {rank} on {host}" for rank, host in zip(finding.ranks, finding.hosts, strict=False)]
        return listed(pairs, 3)
    return ", ".join(sorted(set(finding.hosts))[:4]) or "no culprit"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_TEXT]


def in_order(moments: Iterable[TimelineEvent]) -> tuple[TimelineEvent, ...]:
    """Return the moments by time, each event once, also if two offsets give it slightly different times."""
    last_times: dict[tuple[str, str], float] = {}
    timeline = []
    for moment in sorted(moments, key=lambda moment: moment.time):
        key = moment.what, moment.who
        if moment.time - last_times.get(key, -math.inf) > _NOTABLE_SECONDS:
            timeline.append(moment)
            last_times[key] = moment.time
    return tuple(timeline)


def extended(timeline: Sequence[TimelineEvent], new: Iterable[TimelineEvent]) -> list[TimelineEvent]:
    """Return the timeline with new moments, in order, with a note in place of the moments beyond MAX_MOMENTS."""
    if len(timeline) >= MAX_MOMENTS:
        return [*timeline]
    moments = [*in_order([*timeline, *new])]
    if len(moments) >= MAX_MOMENTS:
        note = "many changes: only its severity and its end are listed from here on"
        moments.append(TimelineEvent(moments[-1].time, note, "the hub"))
    return moments
