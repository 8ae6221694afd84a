"""Recognize a hang before the leases end, by what the ranks wait for and whether they work. Pure.

A lease must outlast every ordinary pause, so it is long where steps are long. But a rank that waits for a lock or a
pipe while nothing in it changes is in no ordinary pause, so it is reported earlier. The hub *looks* at a rank: it asks
the agent for the stack and the work of the rank, and compares the answers (`Standing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.hangs.awaited_ranks import has_one_rank, ranks_by_place, without
from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.hangs.limits import LOOK_RATIO, HangLimits, has_learned
from zmon.detectors.hangs.rules import diagnose
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState
from zmon.schema.standing import Standing

# The hub looks at a rank at the earliest after this time without movement. Two looks are this far apart, so a rank in
# which nothing has changed for this long was the same in two looks.
_LOOK_SECONDS = 1.0
_FEW = 4


def stands_still(snapshot: Snapshot, limits: HangLimits) -> bool:
    """Return True if no rank has moved for a good part of its lease, so that evidence is worth its cost."""
    moving = snapshot.unfinished_ranks
    return bool(moving) and all(_idle_seconds(r) >= _look_seconds(r, limits) for r in moving)


def ranks_to_look_at(snapshot: Snapshot, limits: HangLimits) -> Sequence[RankState]:
    """Return the ranks whose looks tell a pause from a hang: those the others wait for, while nothing moves.

    After them come ranks that wait: their places show whether they wait in a training step or after the training. If
    all ranks are inside one collective, a few of them show whether it moves data.
    """
    if not stands_still(snapshot, limits):
        return ()
    moving = snapshot.unfinished_ranks
    if _are_in_one_collective(snapshot, moving):
        return moving[:_FEW]
    awaited = awaited_by(diagnose(snapshot, limits), moving)
    ranks = [r for r in awaited if r.in_flight is None]
    return ranks + ranks_by_place(without(moving, awaited)) if ranks else ()


def awaited_by(diagnosis: Diagnosis, moving: Sequence[RankState]) -> Sequence[RankState]:
    """Return the ranks whose place shows which pause this may be: the culprits, or else the ranks in no collective."""
    return diagnosis.culprits or [r for r in moving if r.in_flight is None] or moving


def is_shown_early(snapshot: Snapshot, limits: HangLimits) -> bool:
    """Return True if evidence shows that a job will not go on, although not all leases have ended.

    Either the collectives can never end. Or the awaited ranks themselves wait for something on their own hosts, and
    nothing has changed in them for long enough (`_is_unchanged`). Ranks that all start data loaders wait for their own
    workers, and looks compare the workers too. Or all ranks have been inside one collective for long, so that it waits
    for none of them, and it moves no data: their hosts may not reach each other.
    """
    if snapshot.missing or snapshot.unwatched or not stands_still(snapshot, limits):
        return False
    moving = snapshot.unfinished_ranks
    if _are_in_one_collective(snapshot, moving):
        known = with_standing(snapshot, moving)
        is_long = min(r.state_seconds for r in moving) >= 2 * limits.start_look_seconds
        return is_long and bool(known) and all(standing.work is None for _, standing in known)
    diagnosis = diagnose(snapshot, limits)
    if diagnosis.proven and all(map(has_learned, moving)):
        return min(map(_idle_seconds, moving)) >= limits.conflict_seconds
    awaited = [r for r in awaited_by(diagnosis, moving) if r.in_flight is None]
    if all(r.activity == "loader_start" for r in moving):
        known = with_standing(snapshot, moving)
        return bool(known) and all(_is_unchanged(r, standing, limits) for r, standing in known)
    all_wait_alike = len(awaited) == len(moving) and not has_one_rank(snapshot)
    if not awaited or (all_wait_alike and all(map(has_learned, moving))):
        return False  # no rank waits for another one
    known = with_standing(snapshot, awaited)
    return bool(known) and all(
        standing.waits_for_its_host and _is_unchanged(r, standing, limits) for r, standing in known
    )


def _are_in_one_collective(snapshot: Snapshot, moving: Sequence[RankState]) -> bool:
    """Return True if all ranks of the job are inside the same collective, and not all have a lease of their own steps.

    With such a lease the ranks are overdue sooner.
    """
    inside = {(r.in_flight.op, r.in_flight.group, r.in_flight.sequence) if r.in_flight else None for r in moving}
    counted = len(inside) == 1 and all(op is not None and op[2] > 0 for op in inside)
    return counted and len(moving) == snapshot.world_size > 1 and not all(map(has_learned, moving))


def with_standing(snapshot: Snapshot, ranks: Sequence[RankState]) -> list[tuple[RankState, Standing]]:
    """Return those of the ranks that the hub has looked at, each with what the looks show."""
    return [(r, snapshot.standing[r.rank]) for r in ranks if r.rank in snapshot.standing]


def _idle_seconds(state: RankState) -> float:
    """Return for how long a rank has done nothing that zmon sees."""
    return min(state.progress_seconds, state.state_seconds) - state.unobserved_seconds


def _look_seconds(state: RankState, limits: HangLimits) -> float:
    """Return the time without movement after which the hub looks at a rank."""
    if not has_learned(state):
        return limits.start_look_seconds
    return max(_LOOK_SECONDS, LOOK_RATIO * (state.lease_seconds or 0.0))


def _is_unchanged(state: RankState, standing: Standing, limits: HangLimits) -> bool:
    """Return True if nothing has changed in a rank for long enough.

    In training two equal looks suffice. At a start, in an evaluation and in a save, others may help it for a while.
    """
    return standing.unchanged_seconds >= (_LOOK_SECONDS if has_learned(state) else limits.start_look_seconds)
