"""Score one play: what the hub published, against the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lab.simulator.truth import Truth
from lab.simulator.watch import Published
from zmon.schema.names import STALL

RIGHT = ("right", "quiet", "restarted", "no effect")


class Play(msgspec.Struct, frozen=True):
    """The outcome of one play. `faults` and `culprits` were recorded when the faults struck."""

    seed: int
    number: int
    faults: tuple[str, ...]
    culprits: tuple[int, ...]
    evidence: str  # what proves the first fault
    result: str = msgspec.field(name="verdict")
    causes: tuple[str, ...] = ()  # published, in order
    ranks: tuple[int, ...] = ()  # named in a finding, at any time
    confidence: float | None = None  # of the first finding about a stall or a slow rank
    finding_seconds: float | None = None  # from the first fault to the first finding
    page_seconds: float | None = None  # from the first fault to the first critical finding
    summary: str = ""
    composition: str = ""
    skipped: str | None = None  # the reason why it was not played
    first_fault: str = "none"  # what struck first
    num_acts: int = 0  # that the policy asked for
    wrong_acts: tuple[str, ...] = ()  # a line for each act that the truth does not explain


@dataclass(frozen=True)
class Aftermath:
    """The state of the job at the end of a play."""

    is_moving: bool  # it makes progress, or its owner ended it
    was_restarted: bool  # a launcher has started it again
    is_mended: bool = False  # that start ended the fault, so nobody has to act
    looks_like_owner: bool = False  # nothing tells its end from one by its owner, about which zmon is quiet


def judge(
    play: Play, truths: Sequence[Truth], published: Sequence[Published], num_hosts: int, aftermath: Aftermath
) -> Play:
    """Return a play with its truth, what was published about it, and the result.

    A finding that lists all hosts of the job, and no rank, names nobody.
    """
    first = truths[0]
    allowed_ranks = {rank for truth in truths for rank in truth.ranks}
    allowed_hosts = {f"node-{host}" for truth in truths for host in truth.hosts}
    states = [state for state in published if state.finding.severity != "info"]
    about = [state for state in states if state.finding.detector != "coverage"]
    named_ranks = {rank for state in about for rank in state.finding.ranks}
    named_hosts = {
        host
        for state in about
        if not state.finding.ranks and len(set(state.finding.hosts)) < num_hosts
        for host in state.finding.hosts
    }
    is_wrong_name = bool(named_ranks - allowed_ranks) or (num_hosts > 1 and bool(named_hosts - allowed_hosts))
    critical = [state for state in about if state.finding.severity == "critical"]
    shown = next((state for state in about if _names_somebody(state)), about[0] if about else None)
    return msgspec.structs.replace(
        play,
        faults=tuple(f"{truth.strike.what} {truth.strike.place}" for truth in truths),
        first_fault=first.strike.what,
        culprits=tuple(sorted(allowed_ranks)),
        evidence=first.evidence,
        result="wrong name" if is_wrong_name else _result(truths, about, aftermath),
        causes=tuple(dict.fromkeys(state.finding.cause for state in states)),
        ranks=tuple(sorted(named_ranks)),
        confidence=shown.finding.confidence if shown else None,
        finding_seconds=about[0].time - first.time if about else None,
        page_seconds=critical[0].time - first.time if critical else None,
        summary=shown.finding.summary if shown else "",
    )


def _result(truths: Sequence[Truth], about: Sequence[Published], aftermath: Aftermath) -> str:
    """Return the result of a play in which no finding names an innocent."""
    critical = [state for state in about if state.finding.severity == "critical"]
    if all(truth.is_quiet for truth in truths):
        return "false page" if critical else "quiet"
    if aftermath.is_mended and critical:
        return "false page"
    if not aftermath.is_moving:
        stalls = [state for state in about if state.finding.detector == STALL]
        if not stalls:
            return "quiet" if aftermath.looks_like_owner else "silent"
        if not any(state.finding.severity == "critical" for state in stalls):
            return "unpaged"
    if not about:
        if aftermath.was_restarted:
            return "restarted"
        return "no effect" if all(_may_pass(truth) or _was_ended(truth, truths) for truth in truths) else "missed"
    causes = {cause for truth in truths for cause in truth.causes}
    right = [state for state in about if state.finding.cause in causes]
    if right:
        return "unknown" if truths[0].ranks and not _names_somebody(right[-1]) else "right"
    return "unknown" if all(state.finding.cause == "unknown" for state in about) else "wrong cause"


def _names_somebody(state: Published) -> bool:
    return bool(state.finding.ranks or state.finding.hosts)


def _was_ended(truth: Truth, truths: Sequence[Truth]) -> bool:
    """Return True if the owner ended the job before anything could show the fault."""
    ends = [fault.time for fault in truths if fault.strike.what == "cancel"]
    return any(0.0 <= end - truth.time < truth.hidden_seconds for end in ends)


def _may_pass(truth: Truth) -> bool:
    """Return True if the job may go on as before: a skipped collective pairs with the next one of the same kind."""
    return truth.is_quiet or truth.strike.what in ("swallow", "skip") or truth.strike.seconds is not None
