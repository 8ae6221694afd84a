"""What happened when: the lines of an incident's timeline. Pure.

Times are the hub's. What another host's clock said is corrected by how far that clock is off, as far as that is known,
and said to be another's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zmon.schema.finding import Finding
from zmon.schema.host import KernelEvent
from zmon.schema.incident import Brief, Moment
from zmon.schema.rank import RankState

BEFORE_SECONDS = 600.0  # of the first sign: what the kernel said earlier concerns another trouble
_NOTABLE_SECONDS = 0.5  # a clock off by less is not spoken of: the question itself takes some time
_MAX_TEXT = 300
MAX_MOMENTS = 200


@dataclass(frozen=True, slots=True)
class HostClock:
    """A host's clock against the hub's."""

    host: str
    ahead_seconds: float | None = None  # None: not known

    def moment(self, time: float, what: str, who: str) -> Moment:
        """What that clock says was at `time`, on the hub's clock as far as possible."""
        what = " ".join(what.split())[:_MAX_TEXT]
        ahead = self.ahead_seconds
        if ahead is None:
            return Moment(time, what, who, f"by {self.host}'s own clock")
        if abs(ahead) < _NOTABLE_SECONDS:
            return Moment(time - ahead, what, who)
        which = "ahead" if ahead > 0 else "behind"
        return Moment(time - ahead, what, who, f"{self.host}'s clock is {abs(ahead):.1f} s {which}: corrected")


def begun(finding: Finding) -> Iterator[Moment]:
    """From the first sign to the finding."""
    at = "" if finding.step is None else f", at step {finding.step}"
    yield Moment(finding.onset, f"first sign of it{at}", named(finding))
    yield Moment(finding.detected, f"found: {finding.cause}, {finding.severity}", named(finding))


@dataclass(frozen=True, slots=True)
class Suspected:
    """An agent has raised a suspicion, as the hub heard at `time`."""

    time: float
    rank: int
    reason: str
    host: str


def suspicions(heard: Iterable[Suspected], finding: Finding) -> Iterator[Moment]:
    """One line for each reason: when it was heard first, of a culprit if of one."""
    by_reason: dict[str, list[Suspected]] = {}
    for one in heard:
        by_reason.setdefault(one.reason, []).append(one)
    for reason, those in by_reason.items():
        first = min(those, key=lambda one: (one.rank not in finding.ranks, one.time, one.rank))
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        yield Moment(first.time, f"suspected: {reason}", f"rank {first.rank}{more}, by the agent on {first.host}")


def refined(before: Finding, now: Finding, time: float) -> Iterator[Moment]:
    """A later look knew more."""
    if (before.cause, before.ranks, before.hosts) != (now.cause, now.ranks, now.hosts):
        yield Moment(time, f"refined: {before.cause} → {now.cause}", named(now))


def worse(before: Finding, now: Finding, time: float) -> Iterator[Moment]:
    """A later look took it more seriously."""
    if before.severity != now.severity:
        pages = "; it pages from now on" if now.severity == "critical" else ""
        yield Moment(time, f"severity: {before.severity} → {now.severity}{pages}", named(now))


def gathered(time: float, finding: Finding) -> Moment:
    """Evidence came in."""
    stacks, said = finding.evidence.stacks or {}, finding.evidence.stderr_tail or {}
    there = {
        "stacks": any(told.stack for told in stacks.values()),
        "flight records": bool(finding.evidence.in_flight),
        "last lines": any(told.text for told in said.values()),
    }
    names = [name for name, came in there.items() if came]
    return Moment(time, f"evidence gathered: {', '.join([*names, 'steps'])}", "the hub")


def resolved(finding: Finding) -> Moment:
    """It is over."""
    at = finding.resolved or finding.detected
    return Moment(at, f"resolved, {at - finding.onset:.1f} s after the first sign", "the hub")


def kernel_events(events: Iterable[KernelEvent], clock: HostClock, since: float) -> Iterator[Moment]:
    """What the kernel of a host said about GPUs, memory and links, from ten minutes before `since` on."""
    for event in events:
        moment = clock.moment(event.time, f"kernel: {event.text}", clock.host)
        if moment.time >= since - BEFORE_SECONDS:
            yield moment


def last_words(ranks: Iterable[RankState], clocks: dict[str, HostClock]) -> Iterator[Moment]:
    """Of the ranks that are gone."""
    for r in ranks:
        if r.last_words is not None and not r.alive:
            said = f"{r.last_words.type}: {r.last_words.message}" if r.last_words.message else r.last_words.type
            who, clock = f"rank {r.rank} on {r.host}", clocks.get(r.host, HostClock(r.host))
            yield clock.moment(r.last_words.time, f"last words: {said or r.last_words.kind}", who)


def named(finding: Finding | Brief) -> str:
    """Who is to blame, in few words."""
    if finding.ranks:
        pairs = [f"rank {rank} on {host}" for rank, host in zip(finding.ranks, finding.hosts, strict=False)]
        return ", ".join(pairs[:3]) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")
    return ", ".join(sorted(set(finding.hosts))[:4]) or "nobody is named"


def in_order(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Each once, by time; a clock that was asked twice is off a little differently each time."""
    last: dict[tuple[str, str], float] = {}
    told = []
    for moment in sorted(moments, key=lambda moment: moment.time):
        key = moment.what, moment.who
        if moment.time - last.get(key, -math.inf) > _NOTABLE_SECONDS:
            told.append(moment)
            last[key] = moment.time
    return tuple(told)


def extended(told: Sequence[Moment], more: Iterable[Moment]) -> list[Moment]:
    """With what is new, in order. Of a trouble that flickers for hours how it began is told, and that it went on."""
    if len(told) >= MAX_MOMENTS:
        return [*told]
    moments = [*in_order([*told, *more])]
    if len(moments) >= MAX_MOMENTS:
        full = "it goes on so: from here only how bad it gets and its end are told"
        moments.append(Moment(moments[-1].time, full, "the hub"))
    return moments
