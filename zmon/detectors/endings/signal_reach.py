"""Decide whether the first signal reached all ranks, as an owner's signal does, or those of one host or launcher."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from zmon.detectors.endings.signal_order import Signals, first_gone, had_signal, is_exact
from zmon.job.facts import (
    ENDED_SPREAD_SECONDS,
    HOSTS_SPREAD_SECONDS,
    IDLE_SIGNAL_SPREAD_SECONDS,
    before,
    began_to_end,
    ended,
)
from zmon.job.rank_end import KILLED_STATUS, launcher_of
from zmon.job.signals import Sender, launcher_pid, sender
from zmon.schema.rank import RankState


class Reach(Enum):
    """The ranks that a signal reached."""

    ALL = "all ranks"
    PART = "ranks of one host or launcher"
    UNCLEAR = "ranks of one host or launcher, and the others may have had it too"


def reach_of(signals: Signals) -> Reach:
    """Return the ranks that the first signal reached: all, or those of one host or launcher.

    Whoever signals ranks of several hosts, or of several launchers on one, ends the job. A rank whose connection broke
    may have had the signal a moment later. Its exit status shows this, but only for the rank that ended first on its
    host or launcher: the launcher then signals the others.
    """
    end = signals.end
    has_several_hosts = len({r.host for r in end.snapshot.reported_ranks}) > 1
    unit = _host if has_several_hosts else launcher_of
    reached = set(map(unit, (*signals.reached_first, *signals.in_one_sweep, *signals.signalled_late)))
    others = [r for r in end.snapshot.ranks if unit(r) not in reached and r.activity != "done"]
    gone = {r.rank for r in end.ended}
    if any(r.rank not in gone for r in others):
        # Of several hosts, each may have been signalled alone. The others may still end.
        return Reach.ALL if len(reached) > 1 or end.seconds_ago < end.limits.ending_seconds else Reach.PART
    leading = first_gone(others, unit)
    if _were_spared(signals, others, leading) or _spared_neighbours(signals):
        return Reach.PART
    if _have_mixed_senders(signals):
        return Reach.UNCLEAR  # the launchers reacted to the end of some, or had the owner's signal with them
    if len(reached) > 1:
        return Reach.ALL
    if not others and end.snapshot.unwatched and not all(_may_have_had_signal(signals, r) for r in signals.broken):
        return Reach.UNCLEAR  # a neighbour had no signal, and how the ranks of the other hosts ended is not known
    if any(r.exit_status in (None, KILLED_STATUS) for r in leading):
        return Reach.UNCLEAR  # an owner sends SIGKILL after SIGTERM to ranks that do not end, as on a paused host
    if all(map(had_signal, leading)):
        # If one rank was ahead, its launcher may have ended the others.
        is_ahead = signals.is_ahead(IDLE_SIGNAL_SPREAD_SECONDS) or signals.has_late_neighbours()
        return Reach.UNCLEAR if is_ahead else Reach.ALL
    if signals.signalled_late and any(sender(r) is Sender.OTHER for r in others):
        return Reach.UNCLEAR  # the owner signalled all hosts, or a wrapper of their launchers did
    # The others raised before a signal came. Only torchrun signals nobody because of a rank on another host.
    return Reach.UNCLEAR if any(had_signal(r) and r.max_restarts is None for r in leading) else Reach.PART


def _host(state: RankState) -> tuple[str, str]:
    return state.host, ""


def _have_mixed_senders(signals: Signals) -> bool:
    """Return True if on each host on which another process signalled ranks, the launcher signalled others."""
    hosts: dict[Sender, set[str]] = {kind: set() for kind in Sender}
    for r in signals.ranks:
        hosts[sender(r)].add(r.host)
    return not hosts[Sender.UNKNOWN] and bool(hosts[Sender.OTHER]) and hosts[Sender.OTHER] <= hosts[Sender.LAUNCHER]


def _may_have_had_signal(signals: Signals, state: RankState) -> bool:
    """Return True if a rank that lost a connection had a signal, or ended too soon after the first one to tell."""
    first = signals.first
    if had_signal(state) or sender(first) is Sender.LAUNCHER or sender(state) is not Sender.UNKNOWN:
        return True
    return state.exit_status is None and not before(ended(first), ended(state), ENDED_SPREAD_SECONDS)


def _were_spared(signals: Signals, others: Sequence[RankState], leading: Sequence[RankState]) -> bool:
    """Return True if the signal did not reach one of the `others`, which lost a connection and did not end at once.

    The rank lived on until NCCL's watchdog aborted it, or it raised and took its time to end. Of the ranks that raised,
    only the `leading` ones count, because their launchers had no reason to signal them. A known exit status tells more
    than that time.
    """
    if not is_exact(signals.first):
        return False
    lost = {r.rank for r in signals.broken}
    leading_numbers = {r.rank for r in leading}
    aborted_or_leading = (
        r
        for r in others
        if r.rank in lost and (r.last_words is None or (r.rank in leading_numbers and r.exit_status is None))
    )
    return any(before(ended(signals.first), ended(r), ENDED_SPREAD_SECONDS) for r in aborted_or_leading)


def _spared_neighbours(signals: Signals) -> bool:
    """Return True if on each host of a signalled rank another one had no signal, lived on, and then raised.

    The probe recorded who sent the signal, so it would have recorded that of a neighbour too, unless the program
    handles signals itself. A memory watchdog may signal one rank of each host in the same moment. The first rank of a
    host may have started the others, and then its owner ends them by a signal to it alone.
    """
    signalled = {
        r.host
        for r in signals.ranks
        if sender(r) is Sender.OTHER and is_exact(r) and (r.local_rank or r.max_restarts is not None)
    }
    began = began_to_end(signals.first)
    spared = {
        r.host
        for r in signals.broken
        if not r.alive
        and r.last_words is not None
        and launcher_pid(r)  # 0: the sender is not known
        and sender(r) is Sender.UNKNOWN
        and not had_signal(r)
        and r.exit_status != KILLED_STATUS
        and before(began, began_to_end(r), HOSTS_SPREAD_SECONDS)
    }
    return {r.host for r in signals.ranks} == signalled and signalled <= spared
