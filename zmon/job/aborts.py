"""Tell the ranks that NCCL's watchdog aborted, or that gave up, from the rank that they waited for. Pure.

The watchdog aborts the ranks that wait, without last words, and not the rank that they wait for
(ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from zmon.job.connection_errors import is_timeout
from zmon.job.facts import began_to_end, gone_seconds
from zmon.job.rank_end import Way, way_of
from zmon.schema.names import DEFAULT_GROUP
from zmon.schema.rank import RankState

_TIMEOUT_SECONDS = 30.0  # nobody sets the timeout of a process group lower; the default of NCCL is ten minutes


def is_aborted_while_waiting(state: RankState) -> bool:
    """Return True if the watchdog may have ended the rank while it waited (ProcessGroupNCCL.cpp).

    On older kernels there is no exit status.
    """
    wordless = not state.alive and state.last_words is None and state.exit_status in (None, "signal SIGABRT")
    if not wordless or state.device == "cpu":
        return False
    # In which it did the same thing before it ended; without its agent the rank may have ended just now.
    still_seconds = state.state_seconds - (gone_seconds(state) if state.watched else 0.0)
    is_waiting = state.in_flight is not None or still_seconds > _TIMEOUT_SECONDS
    return is_waiting or _was_overdue(state, gone_seconds(state))


def hung_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that hung while others waited for them, until those gave up or NCCL aborted them.

    Such a rank was past its lease before the first abort, or had read data for as long as a timeout takes, and it ended
    later or is alive. Once nothing moves, every rank has entered all collectives that it could, so a rank that hung has
    entered fewer of a group than the victims. A victim that is behind other victims must have waited for it too.
    """
    victims = [r for r in ranks if is_aborted_while_waiting(r) or is_timeout(r.last_words)]
    if not victims:
        return []
    numbers = {r.rank for r in victims}
    began = [began_to_end(r) for r in victims]
    first, earliest = -min(fact.latest for fact in began), min(fact.earliest for fact in began)
    late = [
        r
        for r in ranks
        if r.rank not in numbers
        and not r.in_flight
        # A long step of another rank makes the lease longer than the timeout; who reads data waits for no other rank.
        and (_was_overdue(r, first) or (r.phase == "data" and stood_still(r, first)))
        and (r.alive or (began_to_end(r).latest > earliest and way_of(r) is not Way.FINISHED))
    ]
    furthest = _furthest(victims)
    held_up = {tuple(entered_counts(v).items()) for v in victims if _is_behind(v, furthest)}
    return [r for r in late if _is_behind(r, furthest) and all(_may_hold_up(r, dict(counts)) for counts in held_up)]


def are_aborted(ranks: Sequence[RankState], failed: Set[int]) -> bool:
    """Return True if the watchdog ended ranks, and none `failed` by itself: the network, or a mismatch, is why.

    A single rank may have aborted because of a fault of its own, unless all ranks had stood still for as long as it
    had. The launcher ends the others as soon as the first of them has been aborted.
    """
    aborted = [r for r in ranks if is_aborted_while_waiting(r)]
    are_several = len(aborted) > 1 or (len(aborted) == 1 and _stood_with_all(aborted[0], ranks))
    return are_several and failed <= {r.rank for r in aborted}


def _stood_with_all(state: RankState, ranks: Sequence[RankState]) -> bool:
    """Return True if all ranks had stood still for as long as a timeout takes when this one ended.

    If it is the only rank that is behind several others, they had waited for it. One other rank may as well be ahead
    because it skipped a collective. The other ranks may all be unwatched, as those of a host that is lost.
    """
    seconds_ago, furthest = _gone_at_least(state, ranks), _furthest(ranks)
    is_awaited = [r for r in ranks if _is_behind(r, furthest)] == [state] and len(ranks) > 2
    return state.world_size > 1 and not is_awaited and all(stood_still(r, seconds_ago) for r in ranks)


def _gone_at_least(state: RankState, ranks: Sequence[RankState]) -> float:
    """Return the seconds since the rank ended; of a rank that ended unwatched, those since another one ended.

    Its own time is then that of its last sign of life. The launcher ended the others because of it.
    """
    if state.watched:
        return gone_seconds(state)
    return max((gone_seconds(r) for r in ranks if r is not state and not r.alive), default=0.0)


def has_left_others(ranks: Sequence[RankState]) -> bool:
    """Return True if a rank finished before others gave up or were aborted in a collective that it never entered."""
    victims = [r for r in ranks if is_aborted_while_waiting(r) or is_timeout(r.last_words)]
    if not victims:
        return False
    first, furthest = min(began_to_end(r).latest for r in victims), _furthest(victims)
    numbers = {r.rank for r in victims}
    left = [r for r in ranks if not r.alive and r.rank not in numbers and way_of(r) is Way.FINISHED]
    return any(began_to_end(r).latest < first and _is_behind(r, furthest) for r in left)


def _was_overdue(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank was past its lease that many seconds ago."""
    since = state.step_seconds if state.activity == "train" else state.activity_seconds
    return state.lease_seconds is not None and since - seconds_ago > state.lease_seconds


def stood_still(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank had done the same thing for as long as a timeout takes that many seconds ago."""
    return min(state.step_seconds, state.state_seconds) - seconds_ago > _TIMEOUT_SECONDS


def entered_counts(state: RankState) -> dict[str, int]:
    """Return the number of collectives that the rank has entered, by group, including the one it is in."""
    inside = {state.in_flight.group: state.in_flight.sequence} if state.in_flight else {}
    return {**state.sequences, **inside}


def _furthest(ranks: Sequence[RankState]) -> dict[str, int]:
    """Return the largest number of collectives that any of these ranks has entered, by group."""
    furthest: dict[str, int] = {}
    for state in ranks:
        for group, count in entered_counts(state).items():
            furthest[group] = max(count, furthest.get(group, 0))
    return furthest


def _is_behind(state: RankState, furthest: dict[str, int]) -> bool:
    """Return True if the rank has entered fewer collectives of a group than the furthest rank.

    A rank that has entered none is not known to be in the group, unless every rank is.
    """
    counts = {DEFAULT_GROUP: 0, **state.sequences}
    return any(count < furthest.get(group, 0) for group, count in counts.items())


def _may_hold_up(state: RankState, counts: dict[str, int]) -> bool:
    """Return True if a victim with these counts may have waited for the rank: it is behind, or shares no group."""
    shared = state.sequences.keys() & counts.keys()
    return not shared or any(state.sequences[group] < counts[group] for group in shared)
