"""Score one play: what the hub published, against the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from lab.drills.result import Result
from lab.simulator.truth import Evidence, Truth
from lab.simulator.watch import Published
from zmon.schema.finding import Finding
from zmon.schema.names import STALL

AS_EXPECTED: tuple[Result, ...] = ("right", "quiet", "restarted", "no effect")


class Play(msgspec.Struct, frozen=True):
    """The outcome of one play. `faults` and `culprits` were recorded when the faults struck."""

    seed: int
    number: int  # of the composition: the seed and this number play it again
    faults: tuple[str, ...]
    culprits: tuple[int, ...]
    evidence: Evidence  # what proves the first fault
    result: Result = msgspec.field(name="verdict")  # its key in the output of --json
    causes: tuple[str, ...] = ()  # published, in order
    ranks: tuple[int, ...] = ()  # named in a finding, at any time
    confidence: float | None = None  # of the first finding that names somebody, or else of the first one
    finding_seconds: float | None = None  # from the first fault to the first finding
    page_seconds: float | None = None  # from the first fault to the first critical finding
    summary: str = ""  # of the finding that has the confidence; the errors of a broken play
    composition: str = ""  # as text
    skipped: str | None = None  # the reason why it was not played
    first_fault: str = "none"  # what struck first
    num_acts: int = 0  # acts that the policy asked for
    wrong_acts: tuple[str, ...] = ()  # a line for each act that the truth does not explain


@dataclass(frozen=True)
class Aftermath:
    """The state of the job at the end of a play."""

    is_moving: bool  # it makes progress, or its owner ended it
    was_restarted: bool  # a launcher has started it again
    is_mended: bool = False  # that start ended the fault, so nobody has to act
    looks_like_owner: bool = False  # its end looks like one by its owner, about which zmon is quiet


def judge(
    play: Play, truths: Sequence[Truth], published: Sequence[Published], num_hosts: int, aftermath: Aftermath
) -> Play:
    """Return the play with its faults, what was published about them, and the result."""
    first = truths[0]
    allowed_ranks = {rank for truth in truths for rank in truth.ranks}
    allowed_hosts = {f"node-{host}" for truth in truths for host in truth.hosts}
    loud = [state for state in published if state.finding.severity != "info"]
    states = [state for state in loud if state.finding.detector != "coverage"]  # that one says only who is unwatched
    findings = [state.finding for state in states]
    ranks = {rank for finding in findings for rank in finding.ranks}
    hosts = {host for finding in findings if not finding.ranks for host in _named_hosts(finding, num_hosts)}
    is_wrong_name = not (ranks <= allowed_ranks and hosts <= allowed_hosts)
    naming = [finding for finding in findings if _names_somebody(finding, num_hosts)]
    diagnosis = next(iter(naming or findings), None)
    critical_times = [state.time for state in states if state.finding.severity == "critical"]
    return msgspec.structs.replace(
        play,
        faults=tuple(f"{truth.strike.what} {truth.strike.place}" for truth in truths),
        first_fault=first.strike.what,
        culprits=tuple(sorted(allowed_ranks)),
        evidence=first.evidence,
        result="wrong name" if is_wrong_name else _result(truths, findings, num_hosts, aftermath),
        causes=tuple(dict.fromkeys(state.finding.cause for state in loud)),
        ranks=tuple(sorted(ranks)),
        confidence=diagnosis.confidence if diagnosis else None,
        finding_seconds=states[0].time - first.time if states else None,
        page_seconds=critical_times[0] - first.time if critical_times else None,
        summary=diagnosis.summary if diagnosis else "",
    )


def _result(truths: Sequence[Truth], findings: Sequence[Finding], num_hosts: int, aftermath: Aftermath) -> Result:
    """Return the result of a play in which no finding names an innocent."""
    is_critical = any(finding.severity == "critical" for finding in findings)
    if all(truth.is_quiet for truth in truths):
        return "false page" if is_critical else "quiet"
    if aftermath.is_mended and is_critical:
        return "false page"
    if not aftermath.is_moving:
        severities = {finding.severity for finding in findings if finding.detector == STALL}
        if not severities:
            return "quiet" if aftermath.looks_like_owner else "silent"
        if "critical" not in severities:
            return "unpaged"
    if findings:
        return _diagnosis_result(truths, findings, num_hosts)
    if aftermath.was_restarted:
        return "restarted"
    has_no_effect = all(_may_pass(truth) or _ended_before_it_showed(truth, truths) for truth in truths)
    return "no effect" if has_no_effect else "missed"


def _diagnosis_result(truths: Sequence[Truth], findings: Sequence[Finding], num_hosts: int) -> Result:
    """Return the result by the last finding with a true cause: it must name somebody if that fault has a culprit."""
    true_causes = {cause for truth in truths for cause in truth.causes}
    right = [finding for finding in findings if finding.cause in true_causes]
    if not right:
        return "unknown" if all(finding.cause == "unknown" for finding in findings) else "wrong cause"
    has_culprit = any(truth.has_culprit for truth in truths if right[-1].cause in truth.causes)
    return "unknown" if has_culprit and not _names_somebody(right[-1], num_hosts) else "right"


def _names_somebody(finding: Finding, num_hosts: int) -> bool:
    return bool(finding.ranks or _named_hosts(finding, num_hosts))


def _named_hosts(finding: Finding, num_hosts: int) -> set[str]:
    """Return the hosts that a finding names: a finding that lists all hosts of the job names none of them."""
    hosts = set(finding.hosts)
    return hosts if len(hosts) < num_hosts else set()


def _ended_before_it_showed(truth: Truth, truths: Sequence[Truth]) -> bool:
    """Return True if the owner ended the job before anything could show the fault."""
    ends = [fault.time for fault in truths if fault.strike.what == "cancel"]
    return any(0.0 <= end - truth.time < truth.hidden_seconds for end in ends)


def _may_pass(truth: Truth) -> bool:
    """Return True if the fault may have no effect: it is harmless, heals by itself, or leaves out a collective.

    A collective that is left out may pair with the next one of the same kind.
    """
    return truth.is_quiet or truth.strike.seconds is not None or truth.strike.what in ("swallow", "skip")
