"""Diagnose ranks that took different paths through the code, so that their collectives no longer match. Pure.

These rules come first when nothing moves, because what they find is proven: such a job can never go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.collectives import even_ops
from zmon.detectors.hangs import awaited_ranks, flight_records
from zmon.detectors.hangs.crossed_order import crossed_order
from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.hangs.skipped_collective import skipped_collective
from zmon.detectors.leavers import ADVICE, left_text, missed_leavers, odd_ranks, waits_for
from zmon.detectors.wording import ranks_on, verb
from zmon.schema.evidence import StallEvidence
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SEQUENCE
from zmon.schema.rank import RankState

_PATHS = (
    "The ranks have taken different paths through the code, and the job cannot recover. The stacks in the finding show "
    "where: look for a branch on the rank, an uneven number of batches, or an exception that was swallowed. End the "
    "job and restart it from its last checkpoint."
)


def conflict(snapshot: Snapshot) -> Diagnosis | None:
    """Return the diagnosis that all ranks are inside collectives that can never end; None if that is not proven."""
    alive = snapshot.unfinished_ranks
    circle = crossed(snapshot, alive)
    return mismatch(snapshot, alive) or (circle and (skipped(snapshot, alive) or circle))


def mismatch(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that ranks are in different collectives at the same position of a group."""
    even = even_ops(snapshot.steps)
    first = awaited_ranks.mismatch(alive, even) or flight_records.mismatch(snapshot, even)
    if first is None:
        return None
    culprits = ranks_on(first.minority) if first.minority else "no majority, so no rank is named"
    summary = (
        f"ranks disagree about collective {first.sequence} of group {first.group}: {first.differences} ({culprits})"
    )
    return _proven_conflict(summary, first.minority, 0.9, first.group, first.sequence)


def skipped(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that one rank has not entered a collective of one group before the next one."""
    skip = skipped_collective(alive)
    if skip is None or snapshot.unwatched or snapshot.missing:
        return None
    collective = skip.rank.in_flight
    summary = (
        f"{ranks_on([skip.rank])} has not entered {skip.op} {skip.sequence} of group {skip.group}, in "
        f"which others wait for it, and is in {collective.op if collective else 'no collective'}; {skip.reason}"
    )
    return _proven_conflict(summary, [skip.rank], 0.85, skip.group, skip.sequence)


def crossed(snapshot: Snapshot, alive: list[RankState]) -> Diagnosis | None:
    """Return the diagnosis that ranks entered the collectives of two groups in another order."""
    order = crossed_order(alive)
    if order is None or snapshot.unwatched or snapshot.missing:
        return None
    summary = f"{order.text}{'' if order.minority else ' (no majority, so no rank is named)'}"
    collective = order.usual_collective
    return _proven_conflict(summary, order.minority, 0.85, collective.group, collective.sequence)


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
        proof=SEQUENCE,
    )


def _proven_conflict(
    summary: str, culprits: Sequence[RankState], confidence: float, group: str, sequence: int
) -> Diagnosis:
    """Return the diagnosis of collectives that can never end; without culprits the cause is unknown."""
    return Diagnosis(
        cause="collective_mismatch" if culprits else "unknown",
        summary=summary,
        detail=_PATHS,
        confidence=confidence if culprits else 0.3,
        culprits=culprits,
        proof=SEQUENCE,
        evidence=StallEvidence(group=group, sequence=sequence),
    )
