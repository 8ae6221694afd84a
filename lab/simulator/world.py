"""The engine: executes the scripts of all ranks in virtual time, with collectives, signals, links and launchers. Pure.

A collective is done once every member has entered it and all of them can reach each other. A rank that dies breaks the
connections of its peers. With gloo, a peer raises when it is in a collective with the dead rank; with NCCL it waits.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

from lab.simulator.collective import Collective
from lab.simulator.composition import Composition, Strike
from lab.simulator.instructions import (
    Call,
    EndStep,
    Enter,
    Instruction,
    Leave,
    Meet,
    Sleep,
    Spend,
    Sync,
    Turn,
)
from lab.simulator.launchers import Launchers
from lab.simulator.network import Network
from lab.simulator.outside import strike_from_outside
from lab.simulator.processes import Processes
from lab.simulator.program import RankScript
from lab.simulator.rank import SimulatedRank, Span
from zmon.schema.rank import EnteredCollective

NEEDS_RANK = ("kill", "stop", "term")  # these cannot strike a rank that is gone
TRANSFER_SHARE = 0.01  # of a step: the time of a collective's data


@dataclass(frozen=True)
class Struck:
    """A fault with the time at which it struck. The world records it before zmon is asked."""

    strike: Strike
    time: float


@dataclass
class World:
    """All ranks of one job, and the time; `run` lets them go on."""

    composition: Composition
    time: float = 0.0
    launches: list[list[SimulatedRank]] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    on_outside: Callable[[Strike], None] = lambda strike: None  # faults of agents and of the hub
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape = self.composition.shape
        self.draw: Random = self.composition.random
        self._order = itertools.count()  # of events at the same time
        self._collectives: dict[tuple[str, int], Collective] = {}  # by group and sequence
        self._met: set[int] = set()  # the ranks that reached the rendezvous
        self.network = Network(self.shape)
        self.launchers = Launchers(self)
        self.launch()

    @property
    def ranks(self) -> list[SimulatedRank]:
        """The ranks of the newest launch."""
        return self.launches[-1]

    @property
    def is_still(self) -> bool:
        """True if nothing will happen any more."""
        return not self._events

    def waits_in(self, rank: SimulatedRank) -> Collective | None:
        """Return the collective that a living rank waits in, or None."""
        inside = rank.now.inside
        if inside is None or rank.ended is not None or rank.attempt != self.ranks[0].attempt:
            return None
        collective = self._collectives.get((inside.group, inside.sequence))
        return collective if collective and collective.done_at is None else None

    def run(self, until: float) -> None:
        """Execute everything up to that time."""
        while self._events and self._events[0][0] <= until:
            self.time, _, event = heapq.heappop(self._events)
            event()
        self.time = until

    def schedule(self, after: float, event: Callable[[], None]) -> None:
        """Let something happen `after` seconds from now; never if that is infinite."""
        if after < inf:
            heapq.heappush(self._events, (self.time + after, next(self._order), event))

    def launch(self) -> None:
        """Start all ranks."""
        attempt = len(self.launches)
        self._collectives = {}
        self._met = set()
        self.processes = Processes(self)
        past = [struck.strike for struck in self.struck]
        armed = [strike for strike in self.composition.strikes if strike not in past and strike.after is None]
        self.launches.append([])
        for number in range(self.shape.ranks):
            rank = SimulatedRank(number, self.shape.host_of(number), attempt, self.time)
            rank.program = RankScript(self.shape, number, self.draw, armed).run()
            self.ranks.append(rank)
            self.go_on(rank, self.draw.uniform(0.0, 0.2))

    # -- execution of a script -------------------------------------------------------------------------

    def go_on(self, rank: SimulatedRank, after: float) -> None:
        """Let a rank execute its next instruction `after` seconds from now."""
        rank.token += 1
        token = rank.token
        self.schedule(after, lambda: self._advance(rank, token))

    def _advance(self, rank: SimulatedRank, token: int) -> None:
        """Execute instructions of a rank until it must wait, unless it has ended or is stopped."""
        if rank.ended is not None or token != rank.token:
            return
        if rank.stopped_since(self.time) is not None:
            rank.deferred = True
            return
        while self._execute(rank, next(rank.program)):
            pass

    def _execute(self, rank: SimulatedRank, instruction: Instruction) -> bool:
        """Execute one instruction; return True if the rank goes on at once."""
        match instruction:
            case Spend(phase, seconds):
                rank.spend(self.time, phase)
                self.go_on(rank, seconds)
                return False
            case Enter():
                return self._enter(rank, instruction)
            case Sync():
                return self._sync(rank)
            case Meet():
                self._met.add(rank.rank)
                if len(self._met) == self.shape.ranks:
                    for other in self.ranks:
                        self.go_on(other, self.draw.uniform(0.0, 0.05))
                return False
            case Turn(activity):
                rank.turn(self.time, activity)
            case EndStep():
                rank.end_step(self.time)
            case Sleep(phase):
                rank.spend(self.time, phase)
                rank.sleeps.append(Span(self.time, inf))
                return False
            case Leave(ending):
                self.processes.leave(rank, ending)
                return False
            case Call(strike, after):
                self._record(strike)
                self.schedule(after, partial(strike_from_outside, self, strike))
        return True

    def _record(self, strike: Strike) -> None:
        """Record a fault once, although it may strike several ranks; the first one starts those that come later."""
        if not self.struck:
            for later in self.composition.strikes:
                if later.after is not None:
                    self.schedule(later.after, partial(self._strike_later, later))
        if all(struck.strike != strike for struck in self.struck):
            self.struck.append(Struck(strike, self.time))

    def _strike_later(self, strike: Strike) -> None:
        """Let a fault strike whatever the ranks do, unless its rank is gone."""
        if strike.what not in NEEDS_RANK or self.ranks[strike.rank].ended is None:
            self._record(strike)
            strike_from_outside(self, strike)

    def _enter(self, rank: SimulatedRank, call: Enter) -> bool:
        """Let a rank enter a collective; return True if it goes on at once, as on a GPU."""
        sequence = len(rank.counts.get(call.group, ())) + 1
        entry = EnteredCollective(call.op, call.group, sequence, call.num_bytes)
        waits = call.waits or self.shape.device == "cpu"
        rank.enter(self.time, entry, waits)
        key = (call.group, sequence)
        collective = self._collectives.setdefault(key, Collective(call.group, sequence, call.members))
        collective.entries[rank.rank] = entry
        rank.issued.append(collective)
        if self.shape.watchdog_seconds:
            self.schedule(self.shape.watchdog_seconds, partial(self.processes.abort_waiting, rank, collective))
        if error := self.processes.connection_error(collective, rank):
            self.processes.fail(rank, error)
            return False
        if collective.is_complete:
            self._match(collective)
        return not waits

    def _sync(self, rank: SimulatedRank) -> bool:
        """Let a rank wait for the collectives that it issued; return True if all of them are done."""
        if all(collective.done_at is not None for collective in rank.issued):
            return True
        rank.wait(self.time)
        rank.syncing = True
        return False

    def _match(self, collective: Collective) -> None:
        """Let a complete collective end, unless its members brought different things."""
        if collective.has_different_ops:
            return  # every member waits for ever
        if collective.minority:
            self._deliver(collective)
            return
        seconds = TRANSFER_SHARE * self.shape.step_seconds * self.draw.lognormvariate(0.0, 0.3)
        self.schedule(seconds, lambda: self._deliver(collective))

    def _deliver(self, collective: Collective) -> None:
        """End a complete collective, unless a member is gone or stopped, or cannot be reached."""
        key = (collective.group, collective.sequence)
        members = [self.ranks[number] for number in collective.members]
        hosts = {rank.host for rank in members}
        stopped = any(rank.stopped_since(self.time) is not None for rank in members)
        if collective.done_at is not None or any(rank.ended is not None for rank in members):
            return
        if stopped or not self.network.are_connected(hosts):
            return  # `deliver_all` tries again when a process or a link comes back
        if collective.minority:
            if self.shape.device == "cpu":
                self.processes.abort_others(collective)
            return
        collective.done_at = self.time
        del self._collectives[key]
        for rank in members:
            inside = rank.now.inside
            is_inside = inside is not None and (inside.group, inside.sequence) == key
            if is_inside or (rank.syncing and all(issued.done_at is not None for issued in rank.issued)):
                rank.syncing = False
                self.go_on(rank, 0.0)

    def deliver_all(self) -> None:
        """Deliver what waited for a stopped process or a link."""
        for collective in list(self._collectives.values()):
            if collective.is_complete and collective.done_at is None and not collective.has_different_ops:
                self._deliver(collective)
