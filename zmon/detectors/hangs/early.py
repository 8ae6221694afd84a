"""Find what a job that stands still shows before its leases end: what its ranks wait for, and whether they work. Pure.

A lease must outlast every ordinary pause, so it is long where steps are long. A rank that waits for a lock or a pipe
while nothing changes in it is in no ordinary pause, so it is reported earlier.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.detectors.hangs.awaited_ranks import has_one_rank, movers
from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.hangs.limits import LOOK_RATIO, HangLimits, has_learned
from zmon.detectors.hangs.rules import diagnose
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState
from zmon.schema.standing import Standing

# The shortest time without movement after which it looks; and the time for which nothing must have changed in a rank
# that is reported ahead of its lease: two looks.
_LOOK_SECONDS = 1.0


def stands_still(snapshot: Snapshot, limits: HangLimits) -> bool:
    """Return True if no rank has moved for a good part of its lease, so that evidence is worth its cost."""
    moving = movers(snapshot)
    return bool(moving) and all(_seconds(r) >= _look_seconds(r, limits) for r in moving)


def ranks_to_look_at(snapshot: Snapshot, limits: HangLimits) -> Sequence[RankState]:
    """Return the ranks whose looks tell a pause from a hang: those the others wait for, while nothing moves."""
    if not stands_still(snapshot, limits):
        return ()
    moving = movers(snapshot)
    return [r for r in awaited_by(diagnose(snapshot, limits), moving) if r.in_flight is None]


def awaited_by(diagnosis: Diagnosis, moving: Sequence[RankState]) -> Sequence[RankState]:
    """Return the ranks whose place shows which pause this may be: the culprits, or else the ranks in no collective."""
    return diagnosis.culprits or [r for r in moving if r.in_flight is None] or moving


def is_shown(snapshot: Snapshot, limits: HangLimits) -> bool:
    """Return True if evidence shows that a job will not go on, although not all leases have ended.

    The rank that the others wait for waits itself, for something on its own host, and nothing has changed in it. In
    training one look is enough. At a start, in an evaluation and in a save others may come to its help for a while.
    Ranks that all start data loaders wait for their own workers, which are among what has not changed.
    """
    if snapshot.missing or snapshot.unwatched or not stands_still(snapshot, limits):
        return False
    moving = movers(snapshot)
    diagnosis = diagnose(snapshot, limits)
    if diagnosis.proven and all(map(has_learned, moving)):
        return min(map(_seconds, moving)) >= limits.conflict_seconds
    awaited = [r for r in awaited_by(diagnosis, moving) if r.in_flight is None]
    if all(r.activity == "loader_start" for r in moving):
        known = looked_at(snapshot, moving)
        return bool(known) and all(_is_unchanged(r, s, limits) for r, s in known)
    may_wait_alike = len(awaited) == len(moving) and not has_one_rank(snapshot)
    if not awaited or (may_wait_alike and all(map(has_learned, moving))):
        return False  # nobody else waits for them
    known = looked_at(snapshot, awaited)
    return bool(known) and all(s.waits_for_its_host and _is_unchanged(r, s, limits) for r, s in known)


def looked_at(snapshot: Snapshot, awaited: Sequence[RankState]) -> list[tuple[RankState, Standing]]:
    """Return the awaited ranks that the hub has looked at, with what it saw."""
    return [(r, snapshot.standing[r.rank]) for r in awaited if r.rank in snapshot.standing]


def _seconds(state: RankState) -> float:
    """Return for how long a rank has done nothing that zmon sees."""
    since = state.step_seconds if state.activity == "train" else state.activity_seconds
    return min(since, state.state_seconds) - state.unobserved_seconds


def _look_seconds(state: RankState, limits: HangLimits) -> float:
    if not has_learned(state):
        return limits.start_look_seconds
    return max(_LOOK_SECONDS, LOOK_RATIO * (state.lease_seconds or 0.0))


def _is_unchanged(state: RankState, standing: Standing, limits: HangLimits) -> bool:
    return standing.unchanged_seconds >= (_LOOK_SECONDS if has_learned(state) else limits.start_look_seconds)
