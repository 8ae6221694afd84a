"""Distinguish the ranks that NCCL's watchdog aborted, or that gave up, from the rank that they waited for. Pure.

The watchdog aborts the ranks that wait, without last words, and not the rank that they wait for
(ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from zmon.job.connection_errors import is_timeout, named_ranks, waited_at_store
from zmon.job.facts import began_to_end, gone_seconds
from zmon.job.rank_end import Way, way_of
from zmon.job.sequences import entered, entered_counts, furthest, is_behind
from zmon.schema.rank import RankState

_TIMEOUT_SECONDS = 30.0  # shorter than any usual timeout of a process group; the default of NCCL is ten minutes

# The phases in which only code of the job runs; in the others DDP, FSDP and the like wait for collectives of C++.
_PHASES_OF_THE_JOB = ("data", "h2d", "other")


def is_aborted_while_waiting(state: RankState) -> bool:
    """Return True if the watchdog may have ended the rank while it waited (ProcessGroupNCCL.cpp).

    An older kernel does not report an exit status.
    """
    is_wordless = not state.alive and state.last_words is None and state.exit_status in (None, "signal SIGABRT")
    if not is_wordless or state.device == "cpu":
        return False
    # Time in one state before the rank ended. A rank without an agent may have ended just now.
    still_seconds = state.state_seconds - (gone_seconds(state) if state.watched else 0.0)
    is_waiting = state.in_flight is not None or still_seconds > _TIMEOUT_SECONDS
    return is_waiting or _was_overdue(state, gone_seconds(state))


def hung_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that hung while victims waited for them, until the victims gave up or NCCL aborted them.

    Once nothing moves, every rank has entered all collectives that it could. So a rank that hung (`_may_have_hung`) has
    entered fewer collectives of a group than the victims. A victim that is behind other victims must have waited for it
    too.
    """
    victims = _victims(ranks)
    if not victims:
        return []
    victim_numbers = {r.rank for r in victims}
    missing = frozenset().union(*(named_ranks(r.last_words) for r in victims))
    began = [began_to_end(r) for r in victims]
    seconds_ago = -min(fact.latest for fact in began)
    earliest = min(fact.earliest for fact in began)
    others = [r for r in ranks if r.rank not in victim_numbers]
    hung = [r for r in others if _may_have_hung(r, seconds_ago, missing) and _outlived(r, earliest)]
    largest = furthest(entered(victims))
    held_up = {tuple(entered_counts(v).items()) for v in victims if is_behind(v, largest)}
    behind = [r for r in hung if is_behind(r, largest) and all(_may_hold_up(r, dict(counts)) for counts in held_up)]
    return behind or _awaited_at_store(victims, [r for r in hung if _was_overdue(r, seconds_ago)], missing)


def _may_have_hung(state: RankState, seconds_ago: float, missing: Set[int]) -> bool:
    """Return True if the rank may have hung outside a collective when the first victim ended, `seconds_ago`.

    It was past its lease, or had read data for as long as a timeout takes, or the errors of the victims name it. A long
    step of another rank may make its lease longer than the timeout; a rank that reads data waits for no rank.
    """
    if state.in_flight:
        return False
    has_read_long = state.phase == "data" and stood_still(state, seconds_ago)
    return _was_overdue(state, seconds_ago) or has_read_long or state.rank in missing


def _outlived(state: RankState, earliest: float) -> bool:
    """Return True if the rank is alive, or failed after the first victim, which ended at `earliest` or later."""
    return state.alive or (began_to_end(state).latest > earliest and way_of(state) is not Way.FINISHED)


def _awaited_at_store(victims: Sequence[RankState], late: Sequence[RankState], missing: Set[int]) -> list[RankState]:
    """Return the rank for whose key the victims waited: the only rank of `late`, or a rank of it that errors name.

    An error has the number of a rank within its group, so by itself it proves nothing. A rank in a phase whose
    collectives C++ issues may have waited for the victims.
    """
    if not all(waited_at_store(v.last_words) for v in victims):
        return []
    outside = [r for r in late if r.phase in _PHASES_OF_THE_JOB]
    return [r for r in outside if r.rank in missing] or (outside if len(outside) == 1 else [])


def are_aborted(ranks: Sequence[RankState], failed: Set[int], waiters: Set[int]) -> bool:
    """Return True if the watchdog ended ranks and no rank `failed` by itself: the cause is the network, or a mismatch.

    `waiters`: the ranks that waited in a collective when they ended, by flight record.

    A single rank may have aborted because of its own fault, unless all ranks had stood still for as long as that rank.
    The launcher ends the other ranks as soon as the first rank has been aborted.
    """
    aborted = [r for r in ranks if is_aborted_while_waiting(r)]
    are_several = len(aborted) > 1 or (len(aborted) == 1 and _stood_with_all(aborted[0], ranks, waiters))
    return are_several and failed <= {r.rank for r in aborted}


def _stood_with_all(state: RankState, ranks: Sequence[RankState], waiters: Set[int]) -> bool:
    """Return True if all ranks had stood still for as long as a timeout takes when this rank ended.

    If this rank is the only rank behind several others, they had waited for it, unless it waited itself. A single other
    rank may be ahead because it skipped a collective. The other ranks may all be unwatched, as those of a lost host.
    """
    seconds_ago = _gone_at_least(state, ranks)
    largest = furthest(entered(ranks))
    is_behind_others = [r for r in ranks if is_behind(r, largest)] == [state] and len(ranks) > 2
    is_awaited = is_behind_others and state.rank not in waiters
    return state.world_size > 1 and not is_awaited and all(stood_still(r, seconds_ago) for r in ranks)


def _gone_at_least(state: RankState, ranks: Sequence[RankState]) -> float:
    """Return the seconds since the rank ended; for an unwatched rank, the seconds since the first other rank ended.

    The time of an unwatched rank is the time of its last sign of life. The launcher ended the other ranks because of
    it.
    """
    if state.watched:
        return gone_seconds(state)
    return max((gone_seconds(r) for r in ranks if r is not state and not r.alive), default=0.0)


def has_left_others(ranks: Sequence[RankState]) -> bool:
    """Return True if a rank finished before victims gave up or were aborted in a collective that it never entered."""
    victims = _victims(ranks)
    if not victims:
        return False
    first_end = min(began_to_end(r).latest for r in victims)
    largest = furthest(entered(victims))
    victim_numbers = {r.rank for r in victims}
    finished = [r for r in ranks if not r.alive and r.rank not in victim_numbers and way_of(r) is Way.FINISHED]
    return any(began_to_end(r).latest < first_end and is_behind(r, largest) for r in finished)


def _victims(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that gave up, or that NCCL's watchdog aborted, because they waited in vain."""
    return [r for r in ranks if is_aborted_while_waiting(r) or is_timeout(r.last_words)]


def _was_overdue(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank was past its lease that many seconds ago."""
    return state.lease_seconds is not None and state.progress_seconds - seconds_ago > state.lease_seconds


def stood_still(state: RankState, seconds_ago: float) -> bool:
    """Return True if, that many seconds ago, the state of the rank had not changed for as long as a timeout takes."""
    return min(state.step_seconds, state.state_seconds) - seconds_ago > _TIMEOUT_SECONDS


def _may_hold_up(state: RankState, counts: dict[str, int]) -> bool:
    """Return True if a victim with these counts may have waited for the rank: it is behind, or shares no group."""
    shared = state.sequences.keys() & counts.keys()
    return not shared or any(state.sequences[group] < counts[group] for group in shared)
