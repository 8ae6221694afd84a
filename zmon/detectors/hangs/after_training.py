"""Recognize a job after its training: it evaluates, saves or writes a report, and no step is due any more. Pure.

Ranks note the loops around the end of their steps. A rank whose stack is outside all of them takes no further step
before it enters a loop again, however long that takes (`Snapshot.outside_loops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zmon.detectors.hangs.awaited_ranks import movers
from zmon.detectors.hangs.diagnosis import Diagnosis
from zmon.detectors.hangs.limits import HangLimits, has_learned
from zmon.detectors.wording import verb
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState

_IN_STEP = ("backward", "optimizer")  # phases of a step, although its loop may not have been noted yet
# The hub looks at a rank when its lease ends, at the latest. The answer takes a fraction of this time.
_ANSWER_SECONDS = 1.0


def is_after_training(snapshot: Snapshot, awaited: Sequence[RankState], limits: HangLimits) -> bool:
    """Return True if the awaited ranks, and those that wait for them, are outside their training loops.

    Ranks that leave the loop before the others are no such case, because the others wait for them in a step. Nor are
    ranks that wait for something which nothing will end.
    """
    if not awaited or max(r.overdue_seconds for r in awaited) >= limits.moving_at_most_seconds:
        return False
    if snapshot.missing or snapshot.unwatched or not all(r.alive or r.activity == "done" for r in snapshot.ranks):
        return False
    if not all(r.rank in snapshot.outside_loops and _is_between_steps(r) for r in awaited):
        return False
    waiting = [r for r in movers(snapshot) if r not in awaited]
    if waiting and not any(r.rank in snapshot.outside_loops for r in waiting):
        return False
    return not any(_is_endless(snapshot, r) for r in awaited)


def is_place_due(snapshot: Snapshot, awaited: Sequence[RankState]) -> bool:
    """Return True if the hub is about to know the places of the awaited ranks, which may be outside their loops."""
    return (
        bool(awaited)
        and all(r.phase == "other" and _is_between_steps(r) for r in awaited)
        and not any(r.rank in snapshot.standing or r.rank in snapshot.outside_loops for r in awaited)
        and max(r.overdue_seconds for r in awaited) < _ANSWER_SECONDS
    )


def left_loop(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis of ranks that have left their training loops and for which others wait."""
    left = f"{verb(diagnosis.culprits, 'it has', 'they have')} left the training loop"
    return replace(diagnosis, summary=f"{diagnosis.summary}; {left}")


def _is_between_steps(state: RankState) -> bool:
    return has_learned(state) and state.in_flight is None and state.phase not in _IN_STEP


def _is_endless(snapshot: Snapshot, state: RankState) -> bool:
    """Return True if the rank waits for something that nothing seems to end."""
    standing = snapshot.standing.get(state.rank)
    return standing is not None and (standing.waits_for_its_host or standing.waits_for_server or standing.in_debugger)
