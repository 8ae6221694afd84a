"""Say how all ranks of a job ended, and name the ranks that ended first and by themselves. Pure.

`rank_end` classifies the end of one rank, `aborts` finds the ranks that a library aborted, and `facts` says which end
came first.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from zmon.job.aborts import are_aborted, has_left_others, hung_ranks, is_aborted_while_waiting, stood_still
from zmon.job.facts import Earliest, Fact, before, began_to_end, ended, gone_seconds, launcher_lead
from zmon.job.rank_end import (
    Way,
    ended_with_its_launcher,
    has_left_cleanly,
    launcher_of,
    was_killed_after_its_launcher,
    way_of,
)
from zmon.schema.rank import RankState

# A process that has raised ends within 0.8 s, on a busy machine within seconds; gloo's connections may hold it longer.
_LEAVING_SECONDS = 5.0
_LEAVING_LEASE_RATIO = 0.2  # the lease is 15 p99 steps; in a fifth of it the other ranks may finish their current step


@dataclass(frozen=True, slots=True)
class End:
    """The end of one rank: it is dead, or it has raised and is about to end."""

    rank: RankState
    way: Way

    @property
    def began(self) -> Fact:
        """The first fact about the end: the last words of the rank, or else that it was observed dead."""
        return began_to_end(self.rank)

    @property
    def gone(self) -> Fact:
        """The fact that the rank was observed dead, or that it is about to end."""
        return ended(self.rank)


def ended_ranks(ranks: Sequence[RankState]) -> list[RankState]:
    """Return the dead ranks, and the ranks that have raised and are about to end, which may take seconds.

    A job may survive an exception that reached its excepthook. So a living rank counts only if it has finished no step
    since the exception. In addition, a rank must be dead, or all ranks be overdue, or a rank hang in its end
    (`_is_stuck`).
    """
    dead = [r for r in ranks if not r.alive]
    leaving = [r for r in ranks if r.alive and r.leaving_seconds is not None and r.step_seconds >= r.leaving_seconds]
    moving = [r for r in ranks if r.alive and r.activity != "done"]
    if dead or all(r.overdue_seconds > 0 for r in moving) or any(_is_stuck(r, moving) for r in leaving):
        return [*dead, *leaving]
    return []


def _is_stuck(leaver: RankState, moving: Sequence[RankState]) -> bool:
    """Return True if a rank raised long ago, its process hangs in its end, and no rank has finished a step since."""
    left_seconds = leaver.leaving_seconds or 0.0
    limit_seconds = max(_LEAVING_SECONDS, _LEAVING_LEASE_RATIO * (leaver.lease_seconds or 0.0))
    return left_seconds >= limit_seconds and all(r.step_seconds >= left_seconds for r in moving)


def ends_of(ranks: Sequence[RankState], waiters: Set[int]) -> list[End]:
    """Return the end of each rank that has ended; its way also depends on the ends of the other ranks.

    `waiters`: see `Snapshot.waiters`.
    """
    if all(r.alive and r.last_words is None for r in ranks):
        return []  # the usual answer, which a job of a hundred thousand ranks must get fast
    ends = _with_cancelled_launchers([End(r, way_of(r)) for r in ended_ranks(ranks)], ranks)
    hung = {r.rank for r in hung_ranks(ranks)}
    consequences = (Way.CANCELLED, Way.DISCONNECTED)
    aborts = [ended(r) for r in ranks if is_aborted_while_waiting(r)]
    first_abort = min(aborts, key=lambda fact: fact.latest, default=None)
    died = [end for end in ends if not end.rank.alive and end.way not in consequences]
    # A rank that died after the first abort is not its reason: a launcher kills a rank that does not end at its signal.
    failed = {end.rank.rank for end in died if first_abort is None or not before(first_abort, end.gone)}
    if not hung and not are_aborted(ranks, failed, waiters) and not has_left_others(ranks):
        return ends

    def way_among_others(end: End) -> Way:
        if end.rank.rank in hung:  # a rank that hung until its launcher ended it was not cancelled with the other ranks
            return end.way if end.rank.alive else Way.HUNG
        return Way.DISCONNECTED if is_aborted_while_waiting(end.rank) else end.way

    return [replace(end, way=way_among_others(end)) for end in ends]


def _with_cancelled_launchers(ends: Sequence[End], ranks: Sequence[RankState]) -> list[End]:
    """Return the ends, where ranks that were killed with their launcher count as cancelled.

    The kernel kills all ranks of a container whose first process has ended. So each rank of the launcher must have been
    killed with it or soon after it, or must have left cleanly, as an interrupt makes some ranks do.
    """
    killed = {end.rank.rank for end in ends if end.way is Way.KILLED and ended_with_its_launcher(end.rank)}
    killed_later = {end.rank.rank for end in ends if was_killed_after_its_launcher(end.rank)}
    left = {end.rank.rank for end in ends if has_left_cleanly(end.rank)}
    with_other_ends = {launcher_of(r) for r in ranks if r.rank not in killed | killed_later | left}
    return [
        replace(end, way=Way.CANCELLED)
        if end.rank.rank in killed and launcher_of(end.rank) not in with_other_ends
        else end
        for end in ends
    ]


def is_end_unclear(ends: Sequence[End]) -> bool:
    """Return True if nothing shows whether the owner ended these ranks or whether they were killed.

    No rank left last words, no exit status is known, and no rank certainly ended before the other ranks. Their launcher
    ended too, or no agent watched them. A signal of the owner to watched ranks would have left last words.
    """
    ranks = [end.rank for end in ends]
    if any(r.alive or r.last_words is not None or r.exit_status is not None for r in ranks):
        return False
    if any(r.watched and not _ended_beside_its_launcher(r) for r in ranks):
        return False  # a launcher that lives, or whose status is known, explains the end
    if all(stood_still(r, gone_seconds(r)) for r in ranks):
        return False  # they stood still for as long as a timeout takes, so a library aborted them
    if not all(r.watched for r in ranks):
        return True
    gone = sorted((end.gone for end in ends), key=lambda fact: fact.latest)
    return before(gone[0], gone[-1]) is not True  # None: the order is not known


def _ended_beside_its_launcher(state: RankState) -> bool:
    """Return True if the launcher of a rank ended about when the rank did, and its status is not known."""
    return state.launcher_status is None and launcher_lead(state) is not None


def first_to_end(ends: Sequence[End]) -> list[RankState]:
    """Return the ranks that ended first and by themselves; none if the job was cancelled or all are victims.

    A killed rank comes before a rank that raised in the same moment. A victim may leave its last words before its
    culprit, whose handlers close the connections first. A rank that was killed after other ranks had gone was killed
    because of those ranks.
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
