"""Judge the deaths of all ranks together, and put them in order.

The times of last words are compared only within one host; across hosts only ages are compared, each measured on its own
host. NCCL's watchdog aborts the ranks that wait, without last words, and not the rank that they wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

from zmon.job.beginnings import Beginnings
from zmon.job.connection_errors import is_timeout
from zmon.job.own_death import (
    Death,
    began_seconds,
    death,
    ended_with_its_launcher,
    gone_seconds,
    may_follow_its_launcher,
    was_killed_after_its_launcher,
)
from zmon.schema.rank import RankState

_TIMEOUT_SECONDS = 30.0  # nobody sets the timeout of a process group lower; the default of NCCL is ten minutes
# A rank that a launcher ended because of an abort may seem to have ended this much earlier: its last words have the
# exact time, and a death without last words is seen 0.1 s late. The reports of two hosts add a little.
_SEEN_LATE_SECONDS = 0.3

_CONSEQUENCES = (Death.CANCELLED, Death.VICTIM)

# A process that has raised ends within 0.8 s, on a busy machine within seconds; gloo's connections may hold it longer.
_LEAVING_SECONDS = 5.0
_LEAVING_LEASE_RATIO = 0.2  # of the lease, which is 15 p99 steps: the others may still finish the step they are in

Dead = tuple[RankState, Death]


def deaths(ranks: Sequence[RankState]) -> list[Dead]:
    """Return each rank that has ended with the way in which it ended, judged together with the other ranks."""
    if all(r.alive and r.last_words is None for r in ranks):
        return []  # of a hundred thousand ranks, the usual answer must not take long
    dead = _without_containers([(r, death(r)) for r in ended_ranks(ranks)], ranks)
    hung = hung_ranks(ranks)
    if not hung and not _are_aborted(dead, ranks) and not _has_left_others(ranks):
        return dead
    aborted = [(r, Death.VICTIM if is_aborted_while_waiting(r) and r not in hung else kind) for r, kind in dead]
    # A rank that hung until its launcher ended it was not cancelled with the others.
    return [(r, Death.HUNG if not r.alive and r in hung else kind) for r, kind in aborted]


def _without_containers(dead: Sequence[Dead], ranks: Sequence[RankState]) -> list[Dead]:
    """Return the deaths, with the ranks as cancelled that were all killed with their launcher, or soon after it."""
    killed = {r.rank for r, kind in dead if kind is Death.KILLED and ended_with_its_launcher(r)}
    followed = {r.rank for r, _ in dead if was_killed_after_its_launcher(r)}
    spared = {(r.host, r.launcher) for r in ranks if r.rank not in killed | followed}
    is_cancelled = {r.rank for r, _ in dead if r.rank in killed and (r.host, r.launcher) not in spared}
    return [(r, Death.CANCELLED if r.rank in is_cancelled else kind) for r, kind in dead]


def ended_unclearly(dead: Sequence[Dead], together_seconds: float) -> bool:
    """Return True if nothing shows whether the owner ended these ranks or whether they were killed.

    No rank left last words, no exit status is known, and no rank certainly ended before the others; their launcher
    ended too, or no agent watched them. An owner who signals ranks that are watched leaves their last words. Ranks that
    stood still for as long as a timeout takes were aborted, which is clear.
    """
    ranks = [r for r, _ in dead]
    if any(r.alive or r.last_words is not None or r.exit_status is not None for r in ranks):
        return False
    if not all(may_follow_its_launcher(r) for r in ranks) or all(_stood_still(r, gone_seconds(r)) for r in ranks):
        return False
    ages = [gone_seconds(r) for r in ranks]
    return bool(ranks) and (not all(r.watched for r in ranks) or max(ages) - min(ages) <= together_seconds)


def hung_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that hung while others waited for them, until those gave up or NCCL aborted them.

    Such a rank was past its lease before the first abort, or had read data for as long as a timeout takes, and it ended
    later or is alive. Once nothing moves, every rank has entered all collectives that it could, so a rank that hung has
    entered fewer of a group than the victims. A victim that is behind other victims must have waited for it too.
    """
    victims = _waiting_victims(ranks)
    first = max((began_seconds(r) for r in victims), default=0.0)
    latest = max((began_seconds(r) + _late_seconds(r) for r in victims), default=0.0)
    late = [
        r
        for r in ranks
        if r not in victims
        and not r.in_flight
        and (_was_overdue(r, first) or _hung_in_input(r, first))
        and (r.alive or (began_seconds(r) < latest and death(r) is not Death.FINISHED))
    ]
    furthest = _furthest(victims)
    held_up = {tuple(entered_counts(v).items()) for v in victims if _is_behind(v, furthest)}
    return [r for r in late if _is_behind(r, furthest) and all(_may_hold_up(r, dict(counts)) for counts in held_up)]


def _are_aborted(dead: Sequence[Dead], ranks: Sequence[RankState]) -> bool:
    """Return True if the watchdog ended ranks, and none failed by itself: the network, or a mismatch, is why.

    A single rank may have aborted because of a fault of its own, unless all ranks had waited for as long as it had. The
    launcher ends the others as soon as the first of them has been aborted.
    """
    aborted = [r for r, _ in dead if is_aborted_while_waiting(r)]
    are_several = len(aborted) > 1 or (len(aborted) == 1 and _waited_with_all(aborted[0], ranks))
    return are_several and all(r in aborted or r.alive or kind in _CONSEQUENCES for r, kind in dead)


def _waited_with_all(state: RankState, ranks: Sequence[RankState]) -> bool:
    """Return True if all ranks had stood still for as long as a timeout takes when this one ended.

    If it is the only rank that is behind several others, they had waited for it. One other rank may as well be ahead
    because it skipped a collective. The other ranks may all be unwatched, as those of a host that is lost.
    """
    ended = gone_seconds(state)
    furthest = _furthest(ranks)
    is_awaited = [r for r in ranks if _is_behind(r, furthest)] == [state] and len(ranks) > 2
    return state.world_size > 1 and not is_awaited and all(_stood_still(r, ended) for r in ranks)


def _stood_still(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank had done the same thing for as long as a timeout takes that many seconds ago."""
    return min(state.step_seconds, state.state_seconds) - seconds_ago > _TIMEOUT_SECONDS


def _hung_in_input(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank had read data for as long as a timeout takes, in which it waits for no other rank.

    Steps that last long because another rank evaluates make its lease longer than the timeout.
    """
    return state.phase == "data" and _stood_still(state, seconds_ago)


def _late_seconds(state: RankState) -> float:
    """Return the time by which the rank may have ended earlier than its age shows."""
    return _SEEN_LATE_SECONDS if state.last_words_seconds is None else 0.0


def _has_left_others(ranks: Sequence[RankState]) -> bool:
    """Return True if a rank finished before others gave up or were aborted in a collective that it never entered."""
    victims = _waiting_victims(ranks)
    first = max((began_seconds(r) for r in victims), default=0.0)
    left = [r for r in ranks if not r.alive and r not in victims and death(r) is Death.FINISHED]
    furthest = _furthest(victims)
    return any(began_seconds(r) > first and _is_behind(r, furthest) for r in left)


def _waiting_victims(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the ranks that NCCL may have aborted, or that gave up, while they waited."""
    return [r for r in ranks if is_aborted_while_waiting(r) or is_timeout(r.last_words)]


def _furthest(ranks: Sequence[RankState]) -> dict[str, int]:
    """Return the largest number of collectives that any of these ranks has entered, by group."""
    furthest: dict[str, int] = {}
    for state in ranks:
        for group, count in entered_counts(state).items():
            furthest[group] = max(count, furthest.get(group, 0))
    return furthest


def _is_behind(state: RankState, furthest: dict[str, int]) -> bool:
    """Return True if the rank has entered fewer collectives of a group than the furthest rank."""
    return any(count < furthest.get(group, 0) for group, count in state.sequences.items())


def _may_hold_up(state: RankState, counts: dict[str, int]) -> bool:
    """Return True if a victim with these counts may have waited for the rank: it is behind, or shares no group."""
    shared = state.sequences.keys() & counts.keys()
    return not shared or any(state.sequences[group] < counts[group] for group in shared)


def is_aborted_while_waiting(state: RankState) -> bool:
    """Return True if the watchdog may have ended the rank while it waited (ProcessGroupNCCL.cpp).

    On older kernels there is no exit status.
    """
    wordless = not state.alive and state.last_words is None and state.exit_status in (None, "signal SIGABRT")
    if not wordless or state.device == "cpu":
        return False
    still_seconds = state.state_seconds - gone_seconds(state)  # in which it did the same thing before it ended
    is_waiting = state.in_flight is not None or still_seconds > _TIMEOUT_SECONDS
    return is_waiting or _was_overdue(state, gone_seconds(state))


def _was_overdue(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank was past its lease that many seconds ago."""
    since = state.step_seconds if state.activity == "train" else state.activity_seconds
    return state.lease_seconds is not None and since - seconds_ago > state.lease_seconds


def entered_counts(state: RankState) -> dict[str, int]:
    """Return the number of collectives that the rank has entered, by group, including the one it is in."""
    inside = {state.in_flight.group: state.in_flight.sequence} if state.in_flight else {}
    return {**state.sequences, **inside}


def ended_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the dead ranks, and those that have raised and are about to end, which may take seconds.

    A job may survive an exception that reached its excepthook. So a rank that is alive counts only if it has finished
    no step since then, and only if some rank is dead, nothing moves, or no rank has finished a step for long since.
    """
    dead = [r for r in ranks if not r.alive]
    leaving = [r for r in ranks if r.alive and r.leaving_seconds is not None and r.step_seconds >= r.leaving_seconds]
    moving = [r for r in ranks if r.alive and r.activity != "done"]
    if dead or all(r.overdue_seconds > 0 for r in moving) or any(_is_stuck(r, moving) for r in leaving):
        return [*dead, *leaving]
    return []


def _is_stuck(leaver: RankState, moving: Sequence[RankState]) -> bool:
    """Return True if a rank raised long ago, its process hangs in its end, and no rank has finished a step since."""
    left = leaver.leaving_seconds or 0.0
    long = max(_LEAVING_SECONDS, _LEAVING_LEASE_RATIO * (leaver.lease_seconds or 0.0))
    return left >= long and all(r.step_seconds >= left for r in moving)


def precedes(state: RankState, other: RankState, together_seconds: float) -> bool:
    """Return True if the first rank certainly began to end before the other.

    Last words of one host have exact times. Otherwise ages that differ by less than `together_seconds` prove nothing.
    """
    words, others = state.last_words, other.last_words
    if state.host == other.host and words is not None and others is not None:
        return words.time < others.time
    return began_seconds(state) > began_seconds(other) + together_seconds


def culprits(dead: Sequence[Dead], together_seconds: float) -> list[RankState]:
    """Return the ranks that died first and of their own accord; none if the job was cancelled or all are victims.

    Deaths less than `together_seconds` apart count as simultaneous, because the agent looks ten times a second. Among
    them the last words decide, because the rank stamps them itself. A victim may leave its last words before its
    culprit, whose handlers close the connections first. But a rank that is killed after others were already gone was
    killed because of them.
    """
    hung = [s for s, kind in dead if kind is Death.HUNG]
    first_gone = max((gone_seconds(s) for s, kind in dead if not s.alive and kind is not Death.FINISHED), default=0.0)
    killed = [s for s, kind in dead if kind is Death.KILLED and gone_seconds(s) >= first_gone - together_seconds]
    raised = [s for s, kind in dead if kind is Death.RAISED]
    signalled = [s for s, kind in dead if kind is Death.CANCELLED]
    earlier = Beginnings((*signalled, *raised))
    raised = [s for s in raised if not earlier.precede(s, together_seconds)]
    first_raised = max(map(began_seconds, raised), default=0.0)
    killed = [s for s in killed if first_raised <= gone_seconds(s) + together_seconds]
    by_signal = Beginnings(signalled)
    killed = [s for s in killed if not by_signal.precede(s, together_seconds)]
    return hung or killed or raised
