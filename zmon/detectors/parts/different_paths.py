"""Diagnose ranks that took different paths through the code, so that their collectives no longer match.

These rules come first when nothing moves: what they find out is proven, because the job can never go on.
"""

from __future__ import annotations

from zmon.detectors.parts import awaited_ranks, flight_records
from zmon.detectors.parts.crossed_order import crossed_order
from zmon.detectors.parts.diagnosis_result import Diagnosis
from zmon.detectors.parts.even_sizes import even_ops
from zmon.detectors.parts.skipped_collective import skipped_collective
from zmon.detectors.parts.uneven_end import ADVICE, left_text, missed_leavers, odd_ranks, waits_for
from zmon.detectors.parts.wording import ranks_on, verb
from zmon.schema.evidence import Evidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_PATHS = (
    "The ranks have taken different paths through the code, and the job cannot recover. The stacks in the finding show "
    "where: look for a branch on the rank, an uneven number of batches, or an exception that was swallowed. End the "
    "job and restart it from its last checkpoint."
)


def conflict(snapshot: Snapshot, num_even_steps: int) -> Diagnosis | None:
    """Return the diagnosis that all ranks are inside collectives that can never end; None if that is not proven."""
    alive = [r for r in snapshot.ranks if r.alive and r.activity != "done"]
    return mismatch(num_even_steps, snapshot, alive) or crossed(snapshot, alive)


def mismatch(num_even_steps: int, snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that ranks are in different collectives at the same position of a group."""
    even = even_ops(snapshot.steps, num_even_steps)
    conflict = awaited_ranks.mismatch(alive, even) or flight_records.mismatch(snapshot, even)
    if conflict is None:
        return None
    culprits = ranks_on(conflict.minority) if conflict.minority else "no majority, so no rank is named"
    return Diagnosis(
        cause="collective_mismatch" if conflict.minority else "unknown",
        summary=f"ranks disagree about collective {conflict.sequence} of group {conflict.group}: "
        f"{conflict.differences} ({culprits})",
        detail=_PATHS,
        confidence=0.9 if conflict.minority else 0.3,
        culprits=conflict.minority,
        proven=True,
        evidence=Evidence(group=conflict.group, sequence=conflict.sequence),
    )


def skipped(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that one rank has not entered a collective of one group before the next one."""
    skip = skipped_collective(alive)
    if skip is None or snapshot.unwatched or snapshot.missing:
        return None
    culprit, inside = skip.rank, skip.rank.in_flight
    return Diagnosis(
        cause="collective_mismatch",
        summary=f"{ranks_on([culprit])} has not entered {skip.op} {skip.sequence} of group {skip.group}, in "
        f"which others wait for it, and is in {inside.op if inside else 'no collective'}; {skip.reason}",
        detail=_PATHS,
        confidence=0.85,
        culprits=[culprit],
        proven=True,
        evidence=Evidence(group=skip.group, sequence=skip.sequence),
    )


def crossed(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that ranks entered the collectives of two groups in another order."""
    order = crossed_order(alive)
    if order is None or snapshot.unwatched or snapshot.missing:
        return None
    named = bool(order.minority)
    return Diagnosis(
        cause="collective_mismatch" if named else "unknown",
        summary=f"{order.text}{'' if named else ' (no majority, so no rank is named)'}",
        detail=_PATHS,
        confidence=0.85 if named else 0.3,
        culprits=order.minority,
        proven=True,
        evidence=Evidence(group=order.collective.group, sequence=order.collective.sequence),
    )


def left(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that ranks left while the others went on and wait for them."""
    leavers = missed_leavers(snapshot.ranks)
    if not leavers:
        return None
    waiting = sum(1 for r in alive if r.in_flight or any(waits_for(r, leaver) for leaver in leavers))
    return Diagnosis(
        cause="uneven_end",
        summary=f"{left_text(leavers)}; {waiting} of them wait in a collective for {verb(leavers, 'it', 'them')}",
        detail=ADVICE,
        confidence=0.9,
        culprits=odd_ranks(leavers, snapshot.ranks),
        proven=True,
    )
