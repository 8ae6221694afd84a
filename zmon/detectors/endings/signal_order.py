"""Find out which ranks a signal reached first, and whether it was meant for one rank or for several. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from zmon.detectors.endings.job_end import JobEnd
from zmon.job.facts import (
    ENDED_SPREAD_SECONDS,
    HOSTS_SPREAD_SECONDS,
    IDLE_SIGNAL_SPREAD_SECONDS,
    SIGNAL_SPREAD_SECONDS,
    Earliest,
    before,
    began_to_end,
    ended,
)
from zmon.job.rank_end import CANCELLED_EXIT, CANCELLED_STATUS, Way, launcher_of
from zmon.job.signals import Sender, is_interrupted, is_one_sweep, launcher_pid, lone_target, sender, sender_pid
from zmon.schema.rank import RankState

# Ctrl-C counts as the reason of an end if it came within this time of the first broken connection. A rank that closes
# its connections while it handles Ctrl-C leaves its last words after its victims.
_INTERRUPT_SECONDS = 10.0

Unit = Callable[[RankState], tuple[str, str]]  # the host or the launcher of a rank


@dataclass(frozen=True)
class Signals:
    """The ranks of a job that signals ended, and those that lost a connection or never met the others."""

    end: JobEnd

    @cached_property
    def ranks(self) -> list[RankState]:
        """The ranks that a signal ended, the first one first."""
        return self.end.ended_as(Way.CANCELLED)

    @cached_property
    def broken(self) -> list[RankState]:
        """The ranks that lost a connection, or never met the others, the first one first."""
        return self.end.ended_as(Way.DISCONNECTED, Way.NOT_MET)

    @property
    def first(self) -> RankState:
        """The first of the ranks in `reached_first`; only if there are any."""
        return self.reached_first[0]

    @cached_property
    def reached_first(self) -> list[RankState]:
        """The ranks that a signal reached before any rank lost a connection; none if a connection broke first.

        If NCCL's watchdog aborted a rank, only signals that certainly came before the abort count, because no owner's
        signal causes one.
        """
        aborted = next((r for r in self.broken if r.last_words is None), None)
        lost = Earliest(began_to_end(r) for r in self.broken if r.last_words is not None)
        began = [(r, began_to_end(r)) for r in self.ranks if r.rank not in self._ended_by_launcher]
        return [r for r, fact in began if not lost.precedes(fact) and (aborted is None or before(fact, ended(aborted)))]

    @cached_property
    def _ended_by_launcher(self) -> set[int]:
        """The ranks that their launcher signalled because another one of its ranks had raised and ended.

        That rank raised by itself if it had no signal, although an owner's signal would have reached it before it
        raised. If a launcher sent the first signal, this is not known: the owner may have signalled that launcher, and
        be slow with the others.
        """
        first = self.ranks[0]
        if not is_exact(first) or sender(first) is Sender.LAUNCHER:
            return set()
        failed: dict[tuple[str, str], RankState] = {}
        for r in self.end.ended_as(Way.RAISED):
            is_signalled = r.alive or sender(r) is not Sender.UNKNOWN or had_signal(r)
            if not is_signalled and before(began_to_end(first), began_to_end(r), HOSTS_SPREAD_SECONDS):
                failed.setdefault(launcher_of(r), r)
        return {
            r.rank
            for r in self.ranks
            if is_exact(r)
            and sender(r) is not Sender.OTHER
            and launcher_pid(r)  # 0: the launcher is not known
            and (reason := failed.get(launcher_of(r))) is not None
            and before(began_to_end(reason), began_to_end(r), SIGNAL_SPREAD_SECONDS)
            and not before(began_to_end(r), ended(reason))
        }

    @cached_property
    def signalled_late(self) -> list[RankState]:
        """The ranks on the host of the first one that lost a connection before the same process signalled them too.

        They ended together with the first one. A memory watchdog does not do this: it looks at the memory again before
        it signals another process.
        """
        first = self.first
        return [
            r
            for r in self.broken
            if sender(r) is Sender.OTHER
            and (sender_pid(r) or 0) > 1  # 0: a process of an outer PID namespace; 1: init, which ends the host
            and (r.host, sender_pid(r)) == (first.host, sender_pid(first))
            and not before(ended(first), ended(r), ENDED_SPREAD_SECONDS)
        ]

    @property
    def in_one_sweep(self) -> list[RankState]:
        """The ranks that certainly had the signal too soon after the first one for a launcher to have reacted to it."""
        exact = [r for r in self.ranks if is_exact(self.first) and is_exact(r)]
        latest = began_to_end(self.first).earliest + SIGNAL_SPREAD_SECONDS
        return [r for r in exact if began_to_end(r).latest <= latest]

    @cached_property
    def lone_target(self) -> RankState | None:
        """The rank that another process signalled, while their launchers signalled all others.

        The others may have lost a connection before their signals.
        """
        if target := lone_target(self.ranks):
            return target
        ended_late = [r for r in self.broken if sender(r) is not Sender.UNKNOWN]
        target = lone_target([*self.ranks, *ended_late])
        return target if target in self.reached_first else None

    @cached_property
    def is_interrupt(self) -> bool:
        """True if somebody pressed Ctrl-C: ranks were interrupted, and no launcher reacted to the end of one."""
        interrupted = [r for r in self.ranks if is_interrupted(r)]
        if not interrupted:
            return False
        first = began_to_end(interrupted[0])
        if self.broken and before(began_to_end(self.broken[0]), first, _INTERRUPT_SECONDS):
            return False  # the job had failed before
        others = (r for r in self.end.snapshot.ranks if r.rank != interrupted[0].rank)
        return len(interrupted) > 1 or not any(map(_is_terminated, others))

    @cached_property
    def is_alone(self) -> bool:
        """True if the first signal was meant for one rank: it reached no other, or the others clearly later."""
        first = self.first
        reported = self.end.snapshot.reported_ranks
        if len(reported) == 1 or sender(first) is Sender.LAUNCHER or self.signalled_late:
            return False  # a launcher signals all its ranks
        if len(self.ranks) > 1:
            return self.is_ahead(SIGNAL_SPREAD_SECONDS)
        if not self.broken:
            return bool(self.end.living)  # all others have finished, or live on
        launchers = Counter(map(launcher_of, reported))
        has_launcher_alone = len(launchers) > 1 and launchers[launcher_of(first)] == 1
        return not has_launcher_alone and not self._reached_other_launchers()

    def _reached_other_launchers(self) -> bool:
        """Return True if the ranks of all other launchers had the signal as well, although no launcher sent it.

        Their last words are broken connections, which came a moment before the signal. torchrun signals only the ranks
        of its own host, and only after one of them has failed by itself.
        """
        first = self.first
        others = [r for r in self.end.ended if launcher_of(r) != launcher_of(first)]
        if not others or self.end.living or any(r.max_restarts is None for r in others):
            return False
        return all(
            r.exit_status in CANCELLED_STATUS and not before(ended(first), ended(r), ENDED_SPREAD_SECONDS)
            for r in first_gone(others, launcher_of)
        )

    def is_ahead(self, spread: float) -> bool:
        """Return True if the first rank had the signal earlier than all others by more than the spread of one signal.

        The others must have had it about together, or a connection must have broken in between. Whoever signals the
        ranks of a host reaches all of them within that time, so only those on the same host count, if there are any.
        """
        if len(self.ranks) < 2 or not all(map(is_exact, self.ranks)) or is_one_sweep(self.ranks):
            return False  # the order of the signals is not known well enough, or has no meaning
        first = self.first
        others = [r for r in self.ranks if r is not first]
        others = [r for r in others if r.host == first.host] or others
        began = began_to_end(first)
        second = began_to_end(others[0])
        last = began_to_end(others[-1])
        lead = min(_lead_seconds(first, other) for other in others)
        breaks = (began_to_end(r) for r in self.broken)
        broke_in_between = any(began.latest < lost.latest < second.latest for lost in breaks)
        return lead > spread and (broke_in_between or lead > last.latest - second.latest)

    def has_late_neighbours(self) -> bool:
        """Return True if a rank on the host of the first rank lost a connection later, and had no signal until then.

        mpirun then ends the ranks of all hosts, as an owner does. torchrun does not, so its ranks do not count. If the
        sender of the first signal is known, it tells more than this.
        """
        first = self.first
        if not is_exact(first) or first.max_restarts is not None or sender(first) is not Sender.UNKNOWN:
            return False
        began = began_to_end(first)
        lost = (began_to_end(r) for r in self.broken if r.host == first.host)
        return any(before(began, loss, IDLE_SIGNAL_SPREAD_SECONDS) for loss in lost)


def is_exact(state: RankState) -> bool:
    """Return True if the last words have the time of the signal. A handler of the job runs later, and may save."""
    return state.last_words_seconds is not None and state.last_words is not None and state.last_words.kind == "signal"


def had_signal(state: RankState) -> bool:
    """Return True if the exit status is that of a signal, or of a job that handled one."""
    return state.exit_status in (*CANCELLED_STATUS, *CANCELLED_EXIT)


def first_gone(ranks: Sequence[RankState], unit: Unit) -> list[RankState]:
    """Return the rank of each host or launcher that has been gone longest.

    Among ranks that ended together, a rank that ended by itself comes first: its launcher signalled the others.
    """
    firsts: dict[tuple[str, str], RankState] = {}
    for state in sorted(ranks, key=lambda r: ended(r).latest):
        first = firsts.setdefault(unit(state), state)
        is_together = not before(ended(first), ended(state))
        if is_together and had_signal(first) and state.exit_status is not None and not had_signal(state):
            firsts[unit(state)] = state
    return list(firsts.values())


def _lead_seconds(first: RankState, other: RankState) -> float:
    """Return by how much the signal of the first rank certainly preceded that of the other one."""
    lead = began_to_end(other).earliest - began_to_end(first).latest
    return lead if first.host == other.host else lead - HOSTS_SPREAD_SECONDS


def _is_terminated(state: RankState) -> bool:
    """Return True if SIGTERM ended the rank."""
    words = state.last_words
    return state.exit_status == "signal SIGTERM" or (words is not None and words.type == "SIGTERM")
