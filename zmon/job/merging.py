"""Merge findings about one job, in one pass (`combined`) and from pass to pass (`updated`): one incident is one alert.

A rank may be killed while another rank is frozen, or while a link is down. If each fault has its own proof, they join
in one finding, which keeps the cause of the fault that began first. A fault that only follows from another fault does
not join it: its ranks are victims. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from zmon.job.connection_errors import is_broken_connection
from zmon.schema.evidence import Evidence, JoinedFault, StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.gathered import FlightRow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import severity_order
from zmon.schema.rank import STOPPED_STATES, RankState, RankStatus
from zmon.schema.row import row_of

# NCCL's watchdog and gloo abort a rank that waits (ProcessGroupNCCL.cpp). Other signals come from outside, from the
# kernel, or from a fault of the rank itself.
_ABORTED = "signal SIGABRT"


def joined(first: Finding, second: Finding) -> Finding:
    """Return the first finding with the culprits, the severity and the advice of the second one added."""
    host_of = dict(zip(first.ranks, first.hosts, strict=False))
    host_of = {**dict(zip(second.ranks, second.hosts, strict=False)), **host_of}
    ranks = (*first.ranks, *(rank for rank in second.ranks if rank not in first.ranks))
    hosts = tuple(host_of[rank] for rank in ranks if rank in host_of)
    hosts += tuple(host for host in dict.fromkeys((*first.hosts, *second.hosts)) if host not in hosts)
    fault = row_of(JoinedFault, second)
    earlier = first.evidence_of(StallEvidence).joined or ()
    evidence = second.evidence.updated(first.evidence)
    first, second = _escalated(first, second.severity), _escalated(second, first.severity)
    return replace(
        first,
        ranks=ranks,
        hosts=hosts,
        summary=f"{first.summary}; also: {second.summary}",
        detail=f"{first.detail} Also, about {second.cause}: {second.detail}",
        evidence=msgspec.structs.replace(evidence, joined=(*earlier, fault)),
    )


def _escalated(finding: Finding, severity: str) -> Finding:
    """Return the finding with this severity if it is the higher one, and with a summary that agrees with it."""
    if severity_order(severity) <= severity_order(finding.severity):
        return finding
    silence, summary = finding.evidence_of(StallEvidence).silence, finding.summary
    if silence and silence.reason and severity == "critical":  # the time until it is critical does not matter
        summary = summary.replace(f"; {silence.reason}", "")
    return replace(finding, severity=severity, summary=summary)


def updated(current: Finding, later: Finding, may_publish: bool) -> Finding:
    """Return the published finding, updated with a later report about the same fault.

    `may_publish`: the culprits of the later report may replace the published ones. The severity never falls.
    """
    severity = max(current.severity, later.severity, key=severity_order)
    if later.cause == "unknown" and current.cause != "unknown":  # the known cause stays
        return current if severity == current.severity else _with_text_of(current, later)
    if follows(current, later):
        return joined(current, later)
    ranks, later_ranks = set(current.ranks), set(later.ranks)
    loses_joined_fault = later_ranks < ranks and current.evidence_of(StallEvidence).joined
    loses_culprits = later.cause == current.cause and current.culprits and not later.culprits
    if loses_joined_fault or loses_culprits:
        return _escalated(current, severity)  # a proof may be gone with its process, or with a sample
    if are_victims(current, later):
        return _with_victims(_escalated(current, severity), later.summary)
    if ranks and later_ranks > ranks and later.evidence_of(StallEvidence).joined:  # the finding gains a joined fault
        later, may_publish = replace(later, cause=current.cause, runbook=current.runbook), True
    if severity == current.severity and not may_publish:
        return current
    return replace(
        _escalated(later, severity),
        id=current.id,
        onset=current.onset,
        detected=current.detected,
        evidence=_without_victims(current).updated(later.evidence),
        capsule=current.capsule,
    )


def _with_text_of(current: Finding, later: Finding) -> Finding:
    """Return the finding with the severity and the text of a later report, which says why the severity has risen."""
    return replace(
        current,
        severity=later.severity,
        summary=later.summary,
        detail=later.detail,
        as_of=later.as_of,
        proof=later.proof,
        evidence=_without_victims(current),
    )


def _without_victims(finding: Finding) -> Evidence:
    """Return the evidence without the account of victims, which only the present summary repeats."""
    has_victims = finding.evidence_of(StallEvidence).victims
    return msgspec.structs.replace(finding.evidence, victims=msgspec.UNSET) if has_victims else finding.evidence


def _with_victims(finding: Finding, exits: str) -> Finding:
    """Return the finding with the newest account of the ranks that waited for its culprits and have ended."""
    earlier = finding.evidence_of(StallEvidence).victims or ""
    summary = finding.summary.replace(f"; victims: {earlier}", "")  # the text of a joined fault may stand behind it
    evidence = msgspec.structs.replace(finding.evidence, victims=exits)
    return replace(finding, summary=f"{summary}; victims: {exits}", evidence=evidence)


def combined(snapshot: Snapshot, faults: Sequence[Finding]) -> Finding:
    """Return one finding for the faults that are proven now; `faults` has the most certain one first, at least one.

    The fault that began first gives the finding its cause. If a fault may follow from another one, only the most
    certain one is returned.
    """
    primary = faults[0]
    by_onset = sorted(faults, key=lambda fault: fault.onset)
    if len(faults) == 1 or not all(_is_independent(snapshot, fault, by_onset[0]) for fault in by_onset[1:]):
        return primary
    result = by_onset[0]
    for fault in by_onset[1:]:
        result = joined(result, fault)
    # The finding about a link has a table of the ranks that can say something about it.
    rows = max((fault.evidence.ranks or () for fault in faults), key=len)
    return replace(result, evidence=msgspec.structs.replace(result.evidence, ranks=rows))


def follows(current: Finding, later: Finding) -> bool:
    """Return True if `later` reports a second fault: its culprits were killed or stopped after `current` was reported.

    The culprits of `current` must still be at fault: their rows in the table of ranks have not changed. If all other
    ranks were killed or stopped, somebody ended the job because of the first fault.
    """
    if not current.ranks or not later.ranks or set(later.ranks) & set(current.ranks):
        return False
    if later.onset <= current.detected:
        return False
    before = {row.rank: row for row in current.evidence.ranks or ()}
    now = {row.rank: row for row in later.evidence.ranks or ()}
    for rank in current.ranks:
        if rank not in before or rank not in now or _place(before[rank]) != _place(now[rank]):
            return False
    struck = [now[rank] for rank in later.ranks if rank in now]
    num_others = len(now) + (later.evidence.num_ranks_left_out or 0) - len(current.ranks)
    are_all_others = len(struck) > 1 and len(struck) >= num_others
    if len(struck) < len(later.ranks) or are_all_others:
        return False
    return all(_killed_from_outside(row) or _is_stopped(row) for row in struck)


def are_victims(current: Finding, finding: Finding) -> bool:
    """Return True if all ranks that exited had waited for the published culprits, and gave up or were aborted.

    NCCL's watchdog aborts waiting ranks after ten minutes (ProcessGroupNCCL.cpp); they are victims, not culprits. A
    rank that raised an error of its own did not wait any more.
    """
    if finding.cause != "rank_exited" or not current.ranks or set(finding.ranks) & set(current.ranks):
        return False
    words = finding.evidence_of(StallEvidence).last_words or None
    if words is not None and words.kind == "exception" and not is_broken_connection(words):
        return False
    rows = current.evidence.ranks or ()
    processes = {row.rank: (row.host, row.pid) for row in finding.evidence.ranks or ()}
    flights = current.evidence.in_flight or {}
    waiting = {
        row.rank: (row.host, row.pid) for row in rows if row.op or flights.get(str(row.rank), FlightRow()).num_pending
    }
    numbers = {row.rank for row in rows}
    others_waited = bool(current.evidence.num_ranks_left_out) and bool(waiting)  # ranks without a row, as most ranks

    def has_waited(rank: int) -> bool:
        if rank not in numbers:
            return others_waited
        return rank in waiting and waiting[rank] == processes.get(rank)

    return all(map(has_waited, finding.ranks))


def _killed_from_outside(row: RankStatus | RankState) -> bool:
    """Return True if a signal ended the rank that no library sends to a rank that waits."""
    return not row.alive and (row.exit_status or "").startswith("signal ") and row.exit_status != _ABORTED


def _is_independent(snapshot: Snapshot, fault: Finding, earlier: Finding) -> bool:
    """Return True if the fault has a proof of its own, and does not follow from the one that began earlier."""
    have_culprits = bool(fault.culprits) and bool(earlier.culprits)
    if not have_culprits or set(fault.ranks) & set(earlier.ranks):
        return False
    culprits = [r for r in snapshot.ranks if r.rank in fault.ranks]
    others = len(snapshot.ranks) - len(earlier.ranks)
    if len(culprits) > 1 and len(culprits) >= others:
        return False  # somebody ended or stopped the whole job
    return all(_has_own_fault(r) for r in culprits)


def _has_own_fault(state: RankState) -> bool:
    if state.alive:
        return state.stopped_seconds is not None  # a rank that writes a core file sleeps as well
    words = state.last_words
    own_error = words is not None and words.kind == "exception" and not (words.in_collective or state.in_flight)
    return _killed_from_outside(state) or own_error


def _place(row: RankStatus) -> tuple[object, ...]:
    """Return the process of a rank and the point that it has reached."""
    return row.pid, row.alive, row.step, row.op, row.sequence, _is_stopped(row)


def _is_stopped(row: RankStatus) -> bool:
    """Return True if the process of the rank has been stopped, which no library does."""
    return row.alive and row.process_state in STOPPED_STATES
