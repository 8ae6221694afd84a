"""Report a job in which nothing moves: a link is down, collectives can never end, or all ranks exceed their lease.

A missing carrier, and collectives that contradict each other, prove that the job will not go on, so these findings do
not wait for a lease. What only silence shows may be a pause. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import median

import msgspec

from zmon.detectors.hangs import different_paths
from zmon.detectors.hangs.after_training import is_after_training, is_place_due, left_loop, no_rank_waits
from zmon.detectors.hangs.diagnosis import Diagnosis, network_stall
from zmon.detectors.hangs.early import awaited_by
from zmon.detectors.hangs.limits import HangLimits, has_learned
from zmon.detectors.hangs.rules import diagnose, finishing
from zmon.detectors.hangs.silence import judge, places_text
from zmon.detectors.network import cut_off_host
from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import ranks_text, verb
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import LOCK, STALL, Severity
from zmon.schema.rank import RankState


def link_finding(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a finding if a link is down, and all ranks have been inside collectives for `cut_seconds`."""
    seconds = _inside_seconds(snapshot)
    culprit = cut_off_host(snapshot) if seconds >= limits.cut_seconds else None
    return _inside_finding(snapshot, network_stall(culprit), seconds) if culprit else None


def conflict_finding(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a finding if all ranks wait in collectives that can never end, whatever leases they have.

    A rank that evaluates or saves has a long lease, but inside a collective it does neither.
    """
    seconds = _inside_seconds(snapshot)
    if seconds < limits.conflict_seconds or snapshot.missing or not all(r.alive for r in snapshot.ranks):
        return None
    diagnosis = different_paths.conflict(snapshot)
    return _inside_finding(snapshot, diagnosis, seconds) if diagnosis else None


def _inside_seconds(snapshot: Snapshot) -> float:
    """Return for how long all living ranks have been inside collectives; 0 if they are not."""
    moving = snapshot.unfinished_ranks
    if snapshot.unwatched or any(r.in_flight is None for r in moving):
        return 0.0
    return min((r.state_seconds for r in moving), default=0.0)


def _inside_finding(snapshot: Snapshot, diagnosis: Diagnosis, seconds: float) -> Finding:
    places = places_text(snapshot, diagnosis.culprits)
    return _finding(snapshot, diagnosis, "critical", seconds, f"nothing has moved for {seconds:.1f} s", places)


def is_overdue(snapshot: Snapshot) -> bool:
    """Return True if all ranks that may move have exceeded their lease.

    A rank within its lease moves, or the others wait while it evaluates or saves.
    """
    moving = snapshot.unfinished_ranks
    return bool(moving) and len(overdue_ranks(moving)) == len(moving)


def silence_finding(
    snapshot: Snapshot, judged: Snapshot, limits: HangLimits, severity: Severity, next_start: str
) -> Finding | None:
    """Return a finding about a job whose ranks have all exceeded their lease.

    `judged` is the job as `as_judged` returns it. `severity` holds if the stall is proven. `next_start` says whether
    the launcher will start the job again; empty if nothing will.
    """
    silent = {a.host: a.silent_seconds for a in snapshot.agents}
    if any(silent.get(r.host, 0.0) < limits.silent_seconds for r in snapshot.unwatched):
        return None  # wait until the silent agent answers again or its host counts as lost
    moving = judged.unfinished_ranks
    longest = max(moving, key=lambda r: r.overdue_seconds)
    to_report = _diagnosis_to_report(judged, moving, limits)
    if to_report is None:
        return None
    diagnosis, limits = to_report
    dead = [r for r in snapshot.ranks if not r.alive]  # these cannot move
    if diagnosis.proven or any(r.activity != "done" for r in dead):
        reason, proof = "", diagnosis.proof if diagnosis.proven else LOCK
    else:
        severity, silence = judge(judged, awaited_by(diagnosis, moving), limits)
        reason, proof = f"; {silence.reason}", silence.proof
        diagnosis = replace(diagnosis, evidence=msgspec.structs.replace(diagnosis.evidence, silence=silence))
    who = "no rank"
    if dead:
        who = f"{ranks_text([r.rank for r in dead])} {verb(dead, 'is', 'are')} gone, and no other rank"
    since = f"{longest.step_seconds:.1f} s, since step {longest.step} (lease {longest.lease_seconds or 0.0:.1f} s)"
    beginning = f"{who} has finished a step for {since}"
    end = f"{places_text(judged, diagnosis.culprits)}{reason}" + (f"; {next_start}" if next_start else "")
    return _finding(snapshot, diagnosis, severity, longest.step_seconds, beginning, end, proof)


def _diagnosis_to_report(
    judged: Snapshot, moving: Sequence[RankState], limits: HangLimits
) -> tuple[Diagnosis, HangLimits] | None:
    """Return the diagnosis of ranks that are overdue, and the limits that hold for it; None if none is reported yet.

    After the training no step is due. Ranks for which nobody waits are then reported `moving_at_most_seconds` after the
    end of their leases.
    """
    diagnosis = diagnose(judged, limits)
    if diagnosis.proven:
        return diagnosis, limits
    without_step_due = finishing(judged, moving)
    if without_step_due is None:
        awaited = awaited_by(diagnosis, moving)
        if is_place_due(judged, awaited):
            return None
        if not is_after_training(judged, awaited, limits):
            return diagnosis, limits
        if no_rank_waits(judged, awaited):
            return None
        without_step_due = left_loop(diagnosis)
    if max(r.step_seconds for r in moving) < limits.finishing_seconds:
        return None
    return without_step_due, replace(limits, critical_seconds=limits.critical_at_most_seconds)


def _finding(
    snapshot: Snapshot,
    diagnosis: Diagnosis,
    severity: Severity,
    seconds: float,
    beginning: str,
    end: str,
    proof: str = "",
) -> Finding:
    """Return the finding with this diagnosis. Its summary is `beginning`, the diagnosis, then `end`."""
    return new_finding(
        snapshot,
        detector=STALL,
        cause=diagnosis.cause,
        severity=severity,
        proof=proof or diagnosis.proof,
        culprits=diagnosis.culprits,
        hosts=diagnosis.hosts,
        seconds_ago=seconds,
        stalled=True,
        confidence=diagnosis.confidence,
        summary=f"{beginning}; {diagnosis.summary}{end}",
        detail=diagnosis.detail,
        evidence=diagnosis.evidence,
    )


def overdue_ranks(alive: Sequence[RankState]) -> list[RankState]:
    """Return the ranks past their lease.

    A rank that trains may have no steps to learn a lease from: the worker of a parameter server has no optimizer. If it
    takes part in the collectives of the ranks that have learned one, it has the longest of their leases.
    """
    training = [r for r in alive if has_learned(r)]
    lease = max((r.lease_seconds for r in training if r.lease_seconds is not None), default=inf)
    learning = [r for r in alive if r.activity == "train" and not has_learned(r)]
    usual = median(map(_num_collectives, training)) if training and learning else 0

    def is_past_lease(state: RankState) -> bool:
        if state.overdue_seconds > 0 or state.activity != "train" or has_learned(state):
            return state.overdue_seconds > 0
        takes_part = 0 < usual <= 2 * _num_collectives(state)  # at least half as many as usual
        return state.state_seconds - state.unobserved_seconds > lease and takes_part

    return [r for r in alive if is_past_lease(r)]


def _num_collectives(state: RankState) -> int:
    """Return the number of collectives that the rank has entered in its busiest group."""
    return max(state.sequences.values(), default=0)
