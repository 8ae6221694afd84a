"""One simulated rank: its present state, and the history from which agents read its state at any earlier time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from lab.simulator.collective import Collective
from lab.simulator.endings import ProcessEnd, SignalName
from lab.simulator.instructions import Instruction
from zmon.schema.measures import ns
from zmon.schema.names import SAME_SIZE_OPS
from zmon.schema.rank import EnteredCollective
from zmon.schema.steps import SAME_SIZE_SENT

DONE = "done"


class Instant(NamedTuple):
    """The state of a rank from `time` on, until the next one."""

    time: float
    activity: str
    activity_since: float
    phase: str
    step: int
    step_since: float
    inside: EnteredCollective | None = None  # the collective that the rank is in
    exposed_op: str | None = None  # the device waits for this operation; the code of the rank is in no collective


class Span(NamedTuple):
    """The time from `begin` to `end`, which may be infinite."""

    begin: float
    end: float


class Stay(NamedTuple):
    """A stay in an activity that has ended."""

    end: float
    activity: str
    seconds: float


class SentSignal(NamedTuple):
    """A signal to a process."""

    time: float
    name: SignalName
    sender_pid: int


class SimulatedStep(NamedTuple):
    """One finished step of a rank."""

    step: int
    duration: float
    numbers: dict[str, int]  # by column, as in `zmon.schema.steps`


@dataclass
class SimulatedRank:
    """A rank of one launch. All times are seconds of the simulation."""

    rank: int
    host: int
    attempt: int
    start: float
    program: Iterator[Instruction] = field(default_factory=lambda: iter(()))
    history: list[Instant] = field(default_factory=list)
    steps: list[SimulatedStep] = field(default_factory=list)
    step_ends: list[float] = field(default_factory=list)  # the times of `steps`
    entered: list[EnteredCollective] = field(default_factory=list)
    entered_at: list[float] = field(default_factory=list)  # the times of `entered`
    counts: dict[str, list[float]] = field(default_factory=dict)  # group → times at which it entered a collective
    issued: deque[Collective] = field(default_factory=lambda: deque(maxlen=32))
    stays: list[Stay] = field(default_factory=list)
    checkpoints: list[float] = field(default_factory=list)  # the times at which they ended
    stops: list[Span] = field(default_factory=list)  # in state T
    sleeps: list[Span] = field(default_factory=list)  # in state D
    ended: float | None = None
    ending: ProcessEnd | None = None
    words_at: float | None = None  # when it left its last words, if any
    token: int = 0  # a continuation that was scheduled with an earlier token is void
    deferred: bool = False  # a continuation came due while the process was stopped
    syncing: bool = False  # it waits until all its issued collectives are done
    sender_pid: int | None = None  # of the first SIGTERM, if it came before the last words
    late_signal: SentSignal | None = None  # the first SIGTERM, if it came after the last words
    pending_signal: SentSignal | None = None  # it came while the process was stopped
    numbers: Counter[str] = field(default_factory=Counter)  # of the current step, by column
    total_sent_bytes: int = 0  # in all steps so far, in `SAME_SIZE_OPS`

    def __post_init__(self) -> None:
        self.history.append(Instant(self.start, "init", self.start, "other", 0, self.start))

    @property
    def now(self) -> Instant:
        """The present state."""
        return self.history[-1]

    def at(self, time: float) -> Instant:
        """Return the state at that time."""
        return self.history[max(0, bisect_right(self.history, time, key=lambda instant: instant.time) - 1)]

    def is_alive(self, time: float) -> bool:
        """Return True if the process ran at that time."""
        return self.ended is None or time < self.ended

    def stopped_since(self, time: float) -> float | None:
        """Return since when the process has been stopped at that time, or None."""
        return _begin_at(self.stops, time)

    def blocked_since(self, time: float) -> float | None:
        """Return since when the process has been in state D at that time, or None."""
        return _begin_at(self.sleeps, time)

    def sequences(self, time: float) -> dict[str, int]:
        """Return the number of collectives entered until that time, by group."""
        counts = {group: bisect_right(times, time) for group, times in self.counts.items()}
        return {group: count for group, count in counts.items() if count}

    def last_entered(self, time: float) -> tuple[EnteredCollective, ...]:
        """Return the last two collectives entered until that time, the latest first."""
        number = bisect_right(self.entered_at, time)
        return tuple(reversed(self.entered[max(0, number - 2) : number]))

    # -- changes ---------------------------------------------------------------------------------------

    def turn(self, time: float, activity: str) -> None:
        """Begin another activity, unless the rank is in it already."""
        now = self.now
        if now.activity == activity:
            return
        self._account(time)
        self.stays.append(Stay(time, now.activity, time - now.activity_since))
        if now.activity == "checkpoint":
            self.checkpoints.append(time)
        self.numbers = Counter()  # the time since the last boundary belongs to no step
        self.history.append(
            now._replace(time=time, activity=activity, activity_since=time, step_since=time, inside=None)
        )

    def spend(self, time: float, phase: str) -> None:
        """Begin a phase of the current step."""
        self._account(time)
        self.history.append(self.now._replace(time=time, phase=phase, inside=None, exposed_op=None))

    def wait(self, time: float) -> None:
        """Wait until the device has done the issued collectives; this time counts for the last of them."""
        self._account(time)
        last = self.entered[-1].op
        self.history.append(self.now._replace(time=time, phase="backward", inside=None, exposed_op=last))

    def enter(self, time: float, collective: EnteredCollective, waits: bool) -> None:
        """Enter a collective; `waits`: the rank stays inside until it is done."""
        self.entered.append(collective)
        self.entered_at.append(time)
        self.counts.setdefault(collective.group, []).append(time)
        if waits:
            self._account(time)
            self.history.append(self.now._replace(time=time, inside=collective))
        else:
            self._count(collective.op, collective.num_bytes)

    def end_step(self, time: float) -> None:
        """End a step."""
        self._account(time)
        now = self.now
        self.total_sent_bytes += sum(self.numbers[f"bytes_sent_{op}"] for op in SAME_SIZE_OPS)
        if now.step:
            numbers = {**self.numbers, "samples": 32, SAME_SIZE_SENT: self.total_sent_bytes}
            self.steps.append(SimulatedStep(now.step, time - now.step_since, numbers))
            self.step_ends.append(time)
        self.numbers = Counter()
        self.history.append(now._replace(time=time, step=now.step + 1, step_since=time, inside=None))

    def _account(self, time: float) -> None:
        """Add the time since the latest change to the current step, in the column of the phase or collective."""
        now = self.now
        nanoseconds = ns(time - now.time)
        op = now.exposed_op if now.inside is None else now.inside.op
        if op is None:
            self.numbers[f"phase_{now.phase}"] += nanoseconds
            return
        if now.inside is not None:
            self._count(op, now.inside.num_bytes)
        self.numbers[f"exposed_{op}"] += nanoseconds

    def _count(self, op: str, num_bytes: int) -> None:
        """Count a collective with its bytes in the current step."""
        self.numbers[f"bytes_sent_{op}"] += num_bytes
        self.numbers[f"bytes_received_{op}"] += num_bytes

    def stop(self, time: float) -> None:
        """Stop the process until it is resumed."""
        self.stops.append(Span(time, inf))


def _begin_at(spans: list[Span], time: float) -> float | None:
    """Return the begin of the first of these spans that contains the time, or None."""
    return next((span.begin for span in spans if span.begin <= time < span.end), None)
