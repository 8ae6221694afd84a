"""Decides whether the end of a job by a fault looks as if its owner had ended it. Pure.

zmon is quiet about such an end, because owners end jobs every day: docs/endings.md has these faults among the signals.
Three faults look like an end by the owner:

- a signal to one rank whose launcher ends the others at once, if nobody recorded who sent the signals;
- the death of a launcher that no agent watched;
- exits of all ranks with code 0, as of a job that handles a signal.

Ranks of a host that does not answer show nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.simulator.composition import Shape
from lab.simulator.endings import terminated
from lab.simulator.observation import SimulatedAgent
from lab.simulator.outside import SIGNAL_SECONDS
from lab.simulator.processes import TERM_SECONDS
from lab.simulator.rank import SimulatedRank
from lab.simulator.world import World

HOSTS_SECONDS = 0.3  # an owner who signals the ranks of several hosts reaches all of them within this time


def looks_like_the_owners_end(world: World, agents: Sequence[SimulatedAgent]) -> bool:
    """Return True if all ranks exited with code 0, or if SIGTERM ended all of them together.

    Neither the senders of SIGTERM nor a launcher may show a fault.
    """
    ranks = [rank for rank in world.ranks if agents[rank.host].reachable]
    if ranks and all(rank.ending is not None and rank.ending.status == "exit code 0" for rank in ranks):
        return True
    if not ranks or not all(_was_ended_by_signal(rank, world.shape) for rank in ranks):
        return False
    if len({pid for rank in ranks if (pid := _sender(rank)) is not None}) > 1:
        return False
    launcher_ends = world.launchers.ends.items()
    if any(end.status == "signal SIGKILL" and agents[host].began <= end.time for (_, host), end in launcher_ends):
        return False
    hosts = {rank.host for rank in ranks}
    if len(hosts) == 1 and all(_sender(rank) is not None for rank in ranks):  # one process signalled all of them
        return True
    if world.shape.handles_term:
        return True  # nothing recorded when the signals came, and each handler may save for as long as it likes
    signalled = [rank for rank in ranks if rank.sender_pid is not None or _left_by_signal(rank)]
    longest = SIGNAL_SECONDS + TERM_SECONDS[1]
    spreads = [_spread([rank for rank in signalled if rank.host == host]) for host in hosts]
    return max(spreads) <= longest and (len(hosts) == 1 or _spread(ranks) <= HOSTS_SECONDS + longest)


def _was_ended_by_signal(rank: SimulatedRank, shape: Shape) -> bool:
    """Return True if a signal ended the rank, or may have: nothing shows the opposite.

    If a handler is installed and senders are not known, a rank that lost a connection may have had the signal too late
    for its handler. A known sender proves a signal, also if the program wraps the exception of its handler.
    """
    if rank.ended is None or rank.ending is None:
        return False
    words = rank.ending.words
    is_hidden = shape.handles_term and not shape.senders_known
    if is_hidden and words is not None and words.in_collective:
        return True
    status = terminated("SIGTERM", handles_term=shape.handles_term).status
    return rank.ending.status == status or _sender(rank) is not None


def _sender(rank: SimulatedRank) -> int | None:
    """Return the pid that sent the rank SIGTERM, before or after its last words; None if that was not recorded."""
    late_pid = rank.late_signal.sender_pid if rank.late_signal else None
    return late_pid if rank.sender_pid is None else rank.sender_pid


def _left_by_signal(rank: SimulatedRank) -> bool:
    """Return True if the last words of the rank are those of the signal, and not of a broken connection."""
    words = rank.ending.words if rank.ending else None
    return words is not None and (words.kind == "signal" or words.type == "builtins.SystemExit")


def _spread(ranks: Sequence[SimulatedRank]) -> float:
    """Return the seconds between the first and the last end of these ranks; 0 without ranks."""
    times = [rank.ended or 0.0 for rank in ranks]
    return max(times, default=0.0) - min(times, default=0.0)
