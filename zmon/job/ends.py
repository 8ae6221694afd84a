"""Classify the ways in which the ranks of a job ended, and name those that ended first and by themselves. Pure.

A killed rank leaves no last words. A rank that raises leaves its exception. A peer whose connection broke leaves a
network error. A rank that its launcher ends leaves a signal. NCCL's watchdog aborts the ranks that wait, without last
words, and not the rank that they wait for. facts.py says which end came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from zmon.job.connection_errors import could_not_meet, is_broken_connection, is_timeout
from zmon.job.facts import (
    LOOK_SECONDS,
    ONE_LOOK_SECONDS,
    Earliest,
    Fact,
    before,
    began_to_end,
    ended,
    gone_seconds,
    launcher_lead,
)
from zmon.job.signals import CANCELLED_CODES, is_cancellation
from zmon.schema.rank import RankState

CANCELLED_STATUS = tuple(f"signal {name}" for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"))  # torchrun's list
CANCELLED_EXIT = tuple(f"exit code {code}" for code in CANCELLED_CODES)
_SIGKILL = "signal SIGKILL"
_OWNERS_STATUS = CANCELLED_STATUS[1:]  # no launcher sends these because a rank has failed
_TIMEOUT_SECONDS = 30.0  # nobody sets the timeout of a process group lower; the default of NCCL is ten minutes
# A process that has raised ends within 0.8 s, on a busy machine within seconds; gloo's connections may hold it longer.
_LEAVING_SECONDS = 5.0
_LEAVING_LEASE_RATIO = 0.2  # of the lease, which is 15 p99 steps: the others may still finish the step they are in


class Way(Enum):
    """The way in which a rank ended."""

    KILLED = "killed"
    RAISED = "raised"
    HUNG = "hung until others gave up"
    DISCONNECTED = "disconnected"
    NOT_MET = "never reached the others"
    CANCELLED = "cancelled"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class End:
    """The end of one rank: it is dead, or it has raised and is about to end."""

    rank: RankState
    way: Way

    @property
    def began(self) -> Fact:
        """The first fact about it."""
        return began_to_end(self.rank)

    @property
    def gone(self) -> Fact:
        """The fact that the rank was seen dead, or that it is about to end."""
        return ended(self.rank)


# -- one rank -----------------------------------------------------------------------------------------------


def way_of(state: RankState) -> Way:
    """Return the way in which a rank ended that is dead or has left its last words."""
    way = _way_by_itself(state)
    return Way.CANCELLED if _followed_its_launcher(state, way) else way


def _way_by_itself(state: RankState) -> Way:
    words, status = state.last_words, state.exit_status
    if status == "exit code 0":
        return Way.FINISHED  # its last words do not matter then
    if words is None:
        return Way.CANCELLED if status in (*CANCELLED_STATUS, *CANCELLED_EXIT) else Way.KILLED
    if words.kind == "signal":
        return Way.CANCELLED if status in (None, *CANCELLED_STATUS) else Way.KILLED
    if words.kind == "exit":
        if status is None or status in CANCELLED_STATUS:
            return Way.FINISHED  # it had finished, and its launcher ended the teardown
        if status == _SIGKILL:
            return Way.KILLED  # while it was ending
        return Way.CANCELLED if status in CANCELLED_EXIT else Way.RAISED
    if is_cancellation(words) or words.sender_pid is not None:  # its handler ended it, or its peers were quicker
        return Way.CANCELLED
    if could_not_meet(state):
        return Way.NOT_MET
    if not is_broken_connection(words):
        return Way.RAISED
    # A rank that waits in a collective handles a signal only when its peers are gone.
    return Way.CANCELLED if status in (*CANCELLED_EXIT, *_OWNERS_STATUS) else Way.DISCONNECTED


def _followed_its_launcher(state: RankState, way: Way) -> bool:
    """Return True if an owner's signal ended the launcher, and the rank was killed or left cleanly because of it.

    The processes of `torch.multiprocessing.spawn` swallow the interrupt that they get then, and exit with code 0. A
    rank that had left its last words was ending already, so it need not have ended after its launcher.
    """
    lead = launcher_lead(state)
    if lead is None or state.launcher_status not in CANCELLED_STATUS:
        return False
    if state.last_words is None and lead < ONE_LOOK_SECONDS:
        return False
    return way is Way.FINISHED or (way is Way.KILLED and state.exit_status in (None, _SIGKILL))


def _ended_with_its_launcher(state: RankState) -> bool:
    """Return True if the rank was killed at the moment at which an owner's signal ended its launcher.

    The kernel does that to a container whose first process ends. A script that ends all because a rank was killed does
    it as well, but then the other ranks have the signal.
    """
    lead = launcher_lead(state)
    is_at_once = lead is not None and lead <= LOOK_SECONDS and state.launcher_status in CANCELLED_STATUS
    return is_at_once and not state.alive and state.exit_status in (None, _SIGKILL)


def awaits_its_launchers_status(state: RankState) -> bool:
    """Return True if the rank ended with or after its launcher, whose parent has not read its exit status yet.

    An older kernel tells neither status.
    """
    is_known = state.exit_status is not None and state.launcher_status is None
    return not state.alive and is_known and launcher_lead(state) is not None


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


def _stood_still(state: RankState, seconds_ago: float) -> bool:
    """Return True if the rank had done the same thing for as long as a timeout takes that many seconds ago."""
    return min(state.step_seconds, state.state_seconds) - seconds_ago > _TIMEOUT_SECONDS


# -- all ranks of a job -------------------------------------------------------------------------------------


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


def ends_of(ranks: Sequence[RankState]) -> list[End]:
    """Return the end of each rank that has ended, judged together with the other ranks."""
    if all(r.alive and r.last_words is None for r in ranks):
        return []  # of a hundred thousand ranks, the usual answer must not take long
    ends = _without_containers([End(r, way_of(r)) for r in ended_ranks(ranks)], ranks)
    hung = {r.rank for r in hung_ranks(ranks)}
    if not hung and not _are_aborted(ends, ranks) and not _has_left_others(ranks):
        return ends

    def way(end: End) -> Way:
        if end.rank.rank in hung:  # a rank that hung until its launcher ended it was not cancelled with the others
            return end.way if end.rank.alive else Way.HUNG
        return Way.DISCONNECTED if is_aborted_while_waiting(end.rank) else end.way

    return [replace(end, way=way(end)) for end in ends]


def _without_containers(ends: Sequence[End], ranks: Sequence[RankState]) -> list[End]:
    """Return the ends, with the ranks as cancelled that were all killed with their launcher, or soon after it."""
    killed = {end.rank.rank for end in ends if end.way is Way.KILLED and _ended_with_its_launcher(end.rank)}
    followed = {end.rank.rank for end in ends if _was_killed_after_its_launcher(end.rank)}
    spared = {_unit(r) for r in ranks if r.rank not in killed | followed}
    cancelled = {end.rank.rank for end in ends if end.rank.rank in killed and _unit(end.rank) not in spared}
    return [replace(end, way=Way.CANCELLED) if end.rank.rank in cancelled else end for end in ends]


def _unit(state: RankState) -> tuple[str, str]:
    return state.host, state.launcher


def _was_killed_after_its_launcher(state: RankState) -> bool:
    way = _way_by_itself(state)
    return way is Way.KILLED and _followed_its_launcher(state, way)


def end_unclearly(ends: Sequence[End]) -> bool:
    """Return True if nothing shows whether the owner ended these ranks or whether they were killed.

    No rank left last words, no exit status is known, and no rank certainly ended before the others; their launcher
    ended too, or no agent watched them. An owner who signals ranks that are watched leaves their last words. Ranks that
    stood still for as long as a timeout takes were aborted, which is clear.
    """
    ranks = [end.rank for end in ends]
    if any(r.alive or r.last_words is not None or r.exit_status is not None for r in ranks):
        return False
    if not all(not r.watched or (r.launcher_status is None and launcher_lead(r) is not None) for r in ranks):
        return False
    if not ranks or all(_stood_still(r, gone_seconds(r)) for r in ranks):
        return False
    gone = sorted((end.gone for end in ends), key=lambda fact: fact.latest)
    return not all(r.watched for r in ranks) or not before(gone[0], gone[-1])


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
        and (_was_overdue(r, first) or (r.phase == "data" and _stood_still(r, first)))
        and (r.alive or (began_to_end(r).latest > earliest and way_of(r) is not Way.FINISHED))
    ]
    furthest = _furthest(victims)
    held_up = {tuple(entered_counts(v).items()) for v in victims if _is_behind(v, furthest)}
    return [r for r in late if _is_behind(r, furthest) and all(_may_hold_up(r, dict(counts)) for counts in held_up)]


def _are_aborted(ends: Sequence[End], ranks: Sequence[RankState]) -> bool:
    """Return True if the watchdog ended ranks, and none failed by itself: the network, or a mismatch, is why.

    A single rank may have aborted because of a fault of its own, unless all ranks had waited for as long as it had. The
    launcher ends the others as soon as the first of them has been aborted.
    """
    aborted = {end.rank.rank for end in ends if is_aborted_while_waiting(end.rank)}
    if len(aborted) == 1:
        state = next(end.rank for end in ends if end.rank.rank in aborted)
        if not _stood_with_all(state, ranks):
            return False
    consequences = (Way.CANCELLED, Way.DISCONNECTED)
    return bool(aborted) and all(e.rank.rank in aborted or e.rank.alive or e.way in consequences for e in ends)


def _stood_with_all(state: RankState, ranks: Sequence[RankState]) -> bool:
    """Return True if all ranks had stood still for as long as a timeout takes when this one ended.

    If it is the only rank that is behind several others, they had waited for it. One other rank may as well be ahead
    because it skipped a collective. The other ranks may all be unwatched, as those of a host that is lost.
    """
    seconds_ago, furthest = gone_seconds(state), _furthest(ranks)
    is_awaited = [r for r in ranks if _is_behind(r, furthest)] == [state] and len(ranks) > 2
    return state.world_size > 1 and not is_awaited and all(_stood_still(r, seconds_ago) for r in ranks)


def _has_left_others(ranks: Sequence[RankState]) -> bool:
    """Return True if a rank finished before others gave up or were aborted in a collective that it never entered."""
    victims = [r for r in ranks if is_aborted_while_waiting(r) or is_timeout(r.last_words)]
    if not victims:
        return False
    first, furthest = min(began_to_end(r).latest for r in victims), _furthest(victims)
    numbers = {r.rank for r in victims}
    left = [r for r in ranks if not r.alive and r.rank not in numbers and way_of(r) is Way.FINISHED]
    return any(began_to_end(r).latest < first and _is_behind(r, furthest) for r in left)


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
    """Return True if the rank has entered fewer collectives of a group than the furthest rank."""
    return any(count < furthest.get(group, 0) for group, count in state.sequences.items())


def _may_hold_up(state: RankState, counts: dict[str, int]) -> bool:
    """Return True if a victim with these counts may have waited for the rank: it is behind, or shares no group."""
    shared = state.sequences.keys() & counts.keys()
    return not shared or any(state.sequences[group] < counts[group] for group in shared)


def first_to_end(ends: Sequence[End]) -> list[RankState]:
    """Return the ranks that ended first and by themselves; none if the job was cancelled or all are victims.

    A rank that was killed comes before one that raised in the same moment. A victim may leave its last words before its
    culprit, whose handlers close the connections first. But a rank that is killed after others were already gone was
    killed because of them.
    """
    hung = [end.rank for end in ends if end.way is Way.HUNG]
    gone = Earliest(end.gone for end in ends if not end.rank.alive and end.way is not Way.FINISHED)
    signalled = Earliest(end.began for end in ends if end.way is Way.CANCELLED)
    at_fault = Earliest(end.began for end in ends if end.way in (Way.CANCELLED, Way.RAISED))
    raised = [end for end in ends if end.way is Way.RAISED and not at_fault.precedes(end.began)]
    raised_first = Earliest(end.began for end in raised)
    killed = [
        end.rank
        for end in ends
        if end.way is Way.KILLED
        and not (gone.precedes(end.gone) or raised_first.precedes(end.gone) or signalled.precedes(end.began))
    ]
    return hung or killed or [end.rank for end in raised]
