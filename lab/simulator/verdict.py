"""Score one play: what the hub published, against the truth. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
    wrong_acts: tuple[str, ...] = ()  # a line for each that the truth does not explain


def judge(
    play: Play,
    truths: Sequence[Truth],
    published: Sequence[Published],
    num_hosts: int,
    is_moving: bool,
    was_restarted: bool,
    is_mended: bool = False,
    as_by_owner: bool = False,
) -> Play:
    """Return a play with its truth, what was published about it, and the result.

    `is_moving`: the job makes progress, or was ended by its owner. `was_restarted`: a launcher has started it again.
    `is_mended`: so nobody has to act. `as_by_owner`: nothing tells the end of the job from one by its owner, which is
    quiet. A finding that lists all hosts of the job, and no rank, names nobody.
    """
    findings = [each for each in published if each.finding.severity != "info"]
    first = truths[0]
    allowed = {rank for truth in truths for rank in truth.ranks}
    hosts = {f"node-{host}" for truth in truths for host in truth.hosts}
    about = [each for each in findings if each.finding.detector != "coverage"]
    named_ranks = {rank for each in about for rank in each.finding.ranks}
    on_hosts = [f.hosts for each in about if not (f := each.finding).ranks and len(set(f.hosts)) < num_hosts]
    named_hosts = {host for each in on_hosts for host in each} if num_hosts > 1 else set()
    critical = [each for each in about if each.finding.severity == "critical"]
    shown = next((each for each in about if each.finding.ranks or each.finding.hosts), about[0] if about else None)
    stalls = [each for each in about if each.finding.detector == STALL]
    return msgspec.structs.replace(
        play,
        faults=tuple(f"{each.strike.what} {each.strike.place}" for each in truths),
        first_fault=first.strike.what,
        culprits=tuple(sorted(allowed)),
        evidence=first.evidence,
        result=_result(
            truths,
            about,
            stalls,
            named_ranks - allowed,
            named_hosts - hosts,
            is_moving,
            was_restarted,
            is_mended,
            as_by_owner,
        ),
        causes=tuple(dict.fromkeys(each.finding.cause for each in findings)),
        ranks=tuple(sorted(named_ranks)),
        confidence=shown.finding.confidence if shown else None,
        finding_seconds=about[0].time - first.time if about else None,
        page_seconds=critical[0].time - first.time if critical else None,
        summary=shown.finding.summary if shown else "",
    )


def _result(
    truths: Sequence[Truth],
    about: Sequence[Published],
    stalls: Sequence[Published],
    wrong_ranks: set[int],
    wrong_hosts: set[str],
    is_moving: bool,
    was_restarted: bool,
    is_mended: bool,
    as_by_owner: bool,
) -> str:
    critical = [each for each in about if each.finding.severity == "critical"]
    if wrong_ranks or wrong_hosts:
        return "wrong name"
    if all(truth.is_quiet for truth in truths):
        return "false page" if critical else "quiet"
    if is_mended and critical:
        return "false page"
    if not is_moving and not stalls:
        return "quiet" if as_by_owner else "silent"
    if not is_moving and not any(each.finding.severity == "critical" for each in stalls):
        return "unpaged"
    if not about and was_restarted:
        return "restarted"
    if not about:
        return "no effect" if all(_may_pass(t) or _was_ended(t, truths) for t in truths) else "missed"
    causes = {cause for truth in truths for cause in truth.causes}
    right = [each for each in about if each.finding.cause in causes]
    if right and any(not each.finding.ranks and not each.finding.hosts for each in right[-1:]) and truths[0].ranks:
        return "unknown"
    if right:
        return "right"
    return "unknown" if all(each.finding.cause == "unknown" for each in about) else "wrong cause"


def _was_ended(truth: Truth, truths: Sequence[Truth]) -> bool:
    """Return True if the owner ended the job before anything could show the fault."""
    ends = [each.time for each in truths if each.strike.what == "cancel"]
    return any(0.0 <= end - truth.time < truth.hidden_seconds for end in ends)


def _may_pass(truth: Truth) -> bool:
    """Return True if the job may go on as before: a skipped collective pairs with the next one of the same kind."""
    return truth.is_quiet or truth.strike.what in ("swallow", "skip") or truth.strike.seconds is not None
