"""Recognize a job after its training: it evaluates, saves or writes a report, and no step is due any more. Pure.

Ranks note the loops around the ends of their steps. A rank whose stack is outside all of them takes no further step
before it enters a loop again (`Snapshot.outside_loops`). It may have entered one already that it has not noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zmon.detectors.hangs.awaited_ranks import has_one_rank, ranks_by_place, without
from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.hangs.limits import HangLimits, has_learned
from zmon.detectors.wording import verb
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

# The hub looks at a rank when its lease ends, at the latest, or once it knows the job. The answer takes a fraction of
# this time.
_ANSWER_SECONDS = 1.0


def is_after_training(snapshot: Snapshot, awaited: Sequence[RankState], limits: HangLimits) -> bool:
    """Return True if the awaited ranks, and those that wait for them, are outside their training loops.

    Ranks that leave the loop before the others are no such case, because the others wait for them in a step. Nor are
    ranks that wait for something which nothing will end. Ranks in the same collective share the place of one of them.
    """
    if not awaited or max(r.overdue_seconds for r in awaited) >= limits.moving_at_most_seconds:
        return False
    if snapshot.missing or snapshot.unwatched or not all(r.alive or r.activity == "done" for r in snapshot.ranks):
        return False
    outside = snapshot.outside_loops
    if not all(r.rank in outside and _is_between_steps(r) and not _is_endless(snapshot, r) for r in awaited):
        return False
    waiting = without(snapshot.unfinished_ranks, awaited)
    return all(r.rank in outside for r in ranks_by_place(waiting)) and all(map(_is_idle, waiting))


def is_place_due(snapshot: Snapshot, awaited: Sequence[RankState]) -> bool:
    """Return True if the hub is about to know the places of the awaited ranks, which may be outside their loops."""
    return (
        bool(awaited)
        and all(_is_idle(r) and _is_between_steps(r) for r in awaited)
        and not any(r.rank in snapshot.standing or r.rank in snapshot.outside_loops for r in awaited)
        and min(snapshot.known_seconds, max(r.overdue_seconds for r in awaited)) < _ANSWER_SECONDS
    )


def no_rank_waits(snapshot: Snapshot, awaited: Sequence[RankState]) -> bool:
    """Return True if no rank waits for another one. On a GPU a rank issues a collective and goes on."""
    moving = snapshot.unfinished_ranks
    return len(awaited) == len(moving) and (has_one_rank(snapshot) or all(r.device == "cpu" for r in moving))


def left_loop(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis with the fact that the ranks have left their training loops."""
    who = verb(diagnosis.culprits, "it has", "they have") if diagnosis.culprits else "all ranks have"
    return replace(diagnosis, summary=f"{diagnosis.summary}; {who} left the training loop")


def _is_idle(state: RankState) -> bool:
    """Return True if the rank has done nothing since its last step that zmon sees, except for collectives."""
    return state.phase == "other"


def _is_between_steps(state: RankState) -> bool:
    """Return True if the rank may be between two steps: it is idle, or has moved a moment ago.

    A rank that stands in a phase of a step may be in a loop that it has not noted yet.
    """
    has_moved = state.state_seconds < (state.lease_seconds or 0.0)
    return has_learned(state) and state.in_flight is None and (_is_idle(state) or has_moved)


def _is_endless(snapshot: Snapshot, state: RankState) -> bool:
    """Return True if the rank waits for something that nothing seems to end."""
    standing = snapshot.standing.get(state.rank)
    return standing is not None and (standing.waits_for_its_host or standing.waits_for_server or standing.in_debugger)
