"""The end of simulated processes: exceptions, signals, and the broken connections that follow. Pure.

A process that leaves last words ends a little later. A process that is stopped handles no signal but SIGKILL.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from lab.simulator.collective import Collective
from lab.simulator.endings import ProcessEnd, SignalName, gloo_error, terminated, victim
from lab.simulator.rank import DONE, SentSignal, SimulatedRank
from zmon.schema.rank import LastWords

if TYPE_CHECKING:
    from lab.simulator.world import World

OTHER_PID = 800  # a process that signals ranks and is not their launcher
NOTICE_SECONDS = (0.016, 0.042)  # peers of a killed rank raise this long after it (measured with gloo)
LEAVING_SECONDS = (0.02, 0.1, 0.4, 2.0)  # from the last words to the end of the process
TERM_SECONDS = (0.001, 0.02)  # from SIGTERM to the end of a process without a handler
HANDLER_SECONDS = (0.001, 0.2)  # until a handler in Python runs
ABORT_SECONDS = 0.05  # gloo aborts a rank that receives more than it expects within this time
ABORT_SHARE = 0.7  # of the ranks that receive more than they expect; the others lose their connections
RESET_SECONDS = 0.01  # ranks in a collective notice within this time that their connection was reset


class Processes:
    """The processes of one job, and the connections between them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._reset: set[frozenset[int]] = set()

    def leave(self, rank: SimulatedRank, ending: ProcessEnd) -> None:
        """Let a rank leave its last words, if it has any, and end by itself a little later."""
        world = self._world
        if rank.ended is not None or rank.words_at is not None:
            return
        rank.token += 1
        if ending.words is not None:
            rank.words_at = world.time
            rank.ending = ending = replace(ending, words=self._last_words(rank, ending))
            if rank.ending.words and rank.ending.words.kind == "exit":
                rank.turn(world.time, DONE)
        seconds = 0.0 if ending.exits == "at once" else world.draw.choice(LEAVING_SECONDS)
        if ending.exits == "never":
            seconds = inf
        world.schedule(seconds, partial(self.end, rank, ending))

    def end(self, rank: SimulatedRank, ending: ProcessEnd) -> None:
        """End a process now. Its peers in a collective lose their connections."""
        world = self._world
        if rank.ended is not None:
            return
        rank.ended = world.time
        rank.token += 1
        if rank.words_at is not None and rank.ending is not None:  # the first last words stay
            rank.ending = replace(ending, words=rank.ending.words)
        else:
            rank.ending = replace(ending, words=self._last_words(rank, ending))
        world.launchers.react_to_end(rank)
        for other in world.launches[rank.attempt] if world.shape.device == "cpu" else ():
            if (collective := world.waits_in(other)) and rank.rank in collective.members:
                world.schedule(world.draw.uniform(*NOTICE_SECONDS), partial(self.fail, other, self._error(rank.rank)))

    def _last_words(self, rank: SimulatedRank, ending: ProcessEnd) -> LastWords | None:
        """Return the last words as the rank leaves them now."""
        return ending.words and replace(ending.words, time=self._world.time, sender_pid=rank.sender_pid)

    def signal(self, rank: SimulatedRank, name: SignalName, sender_pid: int = OTHER_PID) -> None:
        """Send a signal to a rank; a stopped process handles only SIGKILL until it goes on."""
        world = self._world
        sent = SentSignal(world.time, name, sender_pid)
        if rank.ended is not None:
            return
        if name != "SIGKILL" and rank.stopped_since(world.time) is not None:
            rank.pending_signal = sent
            return
        is_first = rank.sender_pid is None and rank.late_signal is None
        if name == "SIGTERM" and world.shape.senders_known and is_first:
            if rank.words_at is None:
                rank.sender_pid = sender_pid
            else:
                rank.late_signal = sent
        ending = terminated(name, handles_term=world.shape.handles_term)
        if name == "SIGKILL":
            self.end(rank, ending)
        elif ending.words and ending.words.kind == "signal":
            world.schedule(world.draw.uniform(*TERM_SECONDS), partial(self.end, rank, ending))
        else:
            world.schedule(world.draw.uniform(*HANDLER_SECONDS), partial(self.leave, rank, ending))

    def resume(self, rank: SimulatedRank) -> None:
        """Let a stopped process go on."""
        world = self._world
        rank.stops[-1] = rank.stops[-1]._replace(end=world.time)
        if rank.ended is not None:
            return
        collective = world.waits_in(rank)
        if rank.pending_signal:
            self.signal(rank, rank.pending_signal.name, rank.pending_signal.sender_pid)
        elif collective and (error := self.connection_error(collective, rank)):
            self.fail(rank, error)
        elif rank.deferred:
            rank.deferred = False
            world.go_on(rank, 0.0)
        world.deliver_all()

    def reset(self, first: int, second: int) -> None:
        """Reset the connection between two ranks. Both raise in their present or next common collective."""
        world = self._world
        self._reset.add(frozenset((first, second)))
        for number, peer in ((first, second), (second, first)):
            rank = world.ranks[number]
            collective = world.waits_in(rank)
            if collective and peer in collective.members and world.shape.device == "cpu":
                error = self._error(peer, is_reset=True)
                world.schedule(world.draw.uniform(0.0, RESET_SECONDS), partial(self.fail, rank, error))

    def connection_error(self, collective: Collective, rank: SimulatedRank) -> str:
        """Return the error of a connection to another member; empty if there is none."""
        if self._world.shape.device != "cpu":
            return ""
        others = [number for number in collective.members if number != rank.rank]
        for number in others:
            if frozenset((rank.rank, number)) in self._reset:
                return self._error(number, is_reset=True)
        ended = [number for number in others if self._world.ranks[number].ended is not None]
        return self._error(ended[0]) if ended else ""

    def _error(self, peer: int, is_reset: bool = False) -> str:
        return gloo_error(peer, self._world.shape.host_of(peer), is_reset=is_reset)

    def abort_others(self, collective: Collective) -> None:
        """Let gloo abort ranks that receive more than they expect."""
        world = self._world
        others = [number for number in collective.members if number not in collective.minority]
        aborted = ProcessEnd("signal SIGABRT", None)
        aborting = [number for number in others if world.draw.random() < ABORT_SHARE]
        for number in aborting or others[:1]:
            after = world.draw.uniform(0.0, ABORT_SECONDS)
            world.schedule(after, partial(self.end, world.ranks[number], aborted))

    def abort_waiting(self, rank: SimulatedRank, collective: Collective) -> None:
        """End a rank whose collective is not done yet, as the watchdog of NCCL does."""
        world = self._world
        if collective.done_at is None and rank.ended is None and rank.stopped_since(world.time) is None:
            self.end(rank, ProcessEnd("signal SIGABRT", None))

    def fail(self, rank: SimulatedRank, message: str) -> None:
        """Raise a network error in a rank; a stopped process raises it when it goes on."""
        if rank.ended is None and rank.stopped_since(self._world.time) is None:
            self.leave(rank, victim(message, wrapped=self._world.shape.wraps))
