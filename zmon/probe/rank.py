"""What this rank is doing right now, marked by the trainer itself into its black box.

One timeline: at any instant the rank is in exactly one phase or in one exposed op; entering an exposed op
suspends the phase. A step reaches from the end of the step before it (or from the moment the rank turned to
training) to its own end, so the phases and exposed ops of a step sum to it, and steps sum to wall-clock.

Nothing here raises into the job, blocks or keeps anything per step: a call is a clock reading, a few integer
additions into fixed lists and one write to mapped memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from operator import add
from threading import get_ident

from zmon.box import BoxWriter, layout
from zmon.interface import JobInterface
from zmon.records import ACTIVITIES, OPS, PHASES

INIT, TRAIN, EVAL, CHECKPOINT, DONE = range(len(ACTIVITIES))
PHASE_NUMBER = {name: number for number, name in enumerate(PHASES)}
ACTIVITY_NUMBER = {name: number for number, name in enumerate(ACTIVITIES)}
OP_NUMBER = {name: number for number, name in enumerate(OPS)}
OTHER = PHASE_NUMBER["other"]
_POINT_TO_POINT = (OP_NUMBER["send"], OP_NUMBER["recv"])

_NOTHING = [layout.UNKNOWN] * layout.PHASE + [0] * (layout.NUM_MEASURES - layout.PHASE)
_OP_WIDTH = len(layout.OP_FIELDS)
_MEMORY_INTERVAL_NS = 1_000_000_000  # the allocator's statistics are a slow call

MemoryReader = Callable[[], tuple[int, int, int] | None]


class RankTimeline:
    """Keeps one rank's timeline. Belongs to the thread and process that made it."""

    def __init__(
        self,
        box: BoxWriter,
        interface: JobInterface | None = None,
        network_known: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.box = box
        self.memory_reader: MemoryReader | None = None
        self._clock = clock
        self._interface = interface
        self._pid = os.getpid()
        self._thread = get_ident()
        self._measures = _NOTHING.copy()
        self._totals = _NOTHING.copy()
        if network_known:  # all ranks on this host: what goes to other hosts is known to be nothing
            self._totals[layout.NETWORK_SENT] = self._totals[layout.NETWORK_RECEIVED] = 0
        self._steps = self._step_ns = 0
        self._last_step = self._last_checkpoint = layout.UNKNOWN
        self._memory = (layout.UNKNOWN,) * 3
        self._memory_read = 0
        self._overhead_ns = self._dropped = 0
        self._transitions = 0
        self._report: dict[str, float] = {}
        self._groups: list[tuple[str, int]] = []
        self._sequences = [0] * layout.MAX_GROUPS
        now = clock()
        self._since = self._activity_since = self._step_since = now
        self._activity, self._phase = INIT, OTHER
        self._step = 0
        self._op = self._group = layout.NONE
        self._depth = 0  # collectives made of collectives count once, as the outermost
        self._sequence = self._num_bytes = 0
        box.words(0, 0, b"", b"")
        box.report(*[b"", 0.0] * layout.MAX_REPORT_KEYS)
        self._write_groups()
        for group in range(layout.MAX_GROUPS):
            box.sequence(group, 0)
        self._write_totals()
        self._write_now()
        self._transition_ns = self._calibrate()

    # -- the trainer's calls ---------------------------------------------------------------------------

    def phase(self, number: int) -> None:
        """From now on the rank's own time goes into this phase."""
        if get_ident() != self._thread:
            return  # a prefetching thread has no part in the rank's timeline
        now = self._clock()
        self._measures[layout.PHASE + self._phase] += now - self._since
        self._since = now
        self._phase = number
        self._write_now()

    def begin_step(self, number: int | None) -> None:
        """The rank works towards the next optimizer update."""
        if get_ident() != self._thread:
            return
        if self._activity != TRAIN:
            self.turn_to(TRAIN)
        self._step = self._step + 1 if number is None else _amount(number)
        self.phase(OTHER)

    def end_step(self) -> None:
        """The update is done: write the step down and begin the next one."""
        if get_ident() != self._thread:
            return
        now = self._clock()
        measures, totals = self._measures, self._totals
        measures[layout.PHASE + self._phase] += now - self._since
        duration = now - self._step_since
        if self._interface is not None and (moved := self._interface.since_last()) is not None:
            measures[layout.NIC_SENT], measures[layout.NIC_RECEIVED] = moved
        if self.memory_reader is not None and now - self._memory_read > _MEMORY_INTERVAL_NS:
            self._memory = self.memory_reader() or self._memory
            self._memory_read = now
        measures[layout.NETWORK_SENT : layout.NETWORK_RECEIVED + 1] = totals[
            layout.NETWORK_SENT : layout.NETWORK_RECEIVED + 1
        ]
        self.box.record(self._step, self._step_since, duration, self._memory[2], *measures)
        self._steps += 1
        self._step_ns += duration
        self._last_step = time.time_ns()
        self._fold()
        self._since = self._step_since = now
        self._phase = OTHER
        self._overhead_ns += self._transitions * self._transition_ns + self._clock() - now
        self._transitions = 0
        self._write_totals()
        self._write_now()

    def turn_to(self, activity: int, failed: bool = False) -> int:
        """From now on the rank is there for this; returns what it was there for before (`failed`: in vain).

        What has gathered since the last step boundary belongs to no step: the next one begins when the rank
        turns to training again.
        """
        before = self._activity
        if get_ident() != self._thread:
            return before
        self._fold_outside_steps()
        if before == CHECKPOINT and not failed:
            self._last_checkpoint = time.time_ns()
        self._activity = activity
        self._since = self._activity_since = self._step_since = self._clock()
        self._phase = OTHER
        self._write_totals()
        self._write_now()
        return before

    def work(self, samples: int | None, lookups: int | None) -> None:
        """How much this rank has on its plate in this step."""
        for at, amount in ((layout.SAMPLES, samples), (layout.LOOKUPS, lookups)):
            if amount is not None:
                self._measures[at] = max(self._measures[at], 0) + _amount(amount)

    def report(self, values: dict[str, float]) -> None:
        """Gauges for the dashboard; the first four names stay, others are dropped and counted."""
        for key, value in values.items():
            if key in self._report or len(self._report) < layout.MAX_REPORT_KEYS:
                self._report[key] = float(value)
            else:
                self._dropped += 1
        flat: list[bytes | float] = []
        for key, number in self._report.items():
            flat += (layout.field(key, 32), number)
        self.box.report(*flat, *[b"", 0.0] * (layout.MAX_REPORT_KEYS - len(self._report)))

    # -- the hooks' calls ------------------------------------------------------------------------------

    def group(self, name: str, size: int) -> int:
        """The number of a process group in the box; the ninth and later ones have none."""
        if (name, size) in self._groups:
            return self._groups.index((name, size))
        if len(self._groups) == layout.MAX_GROUPS:
            return layout.NONE
        self._groups.append((name, size))
        self._write_groups()
        return len(self._groups) - 1

    def enter_op(self, op: int, group: int, sent: int, received: int) -> bool:
        """A collective begins and the rank waits in it. False: it is part of another and must not be left."""
        if self._depth or get_ident() != self._thread:
            return False
        now = self._clock()
        measures = self._measures
        measures[layout.PHASE + self._phase] += now - self._since
        self._count_op(op, group, sent, received)
        self._since = now
        self._op, self._group, self._num_bytes = op, group, sent + received
        self._write_now()
        self._depth = 1
        return True

    def leave_op(self) -> None:
        """The collective is over; the suspended phase goes on."""
        now = self._clock()
        waited = now - self._since
        at = layout.OP + self._op * _OP_WIDTH
        self._measures[at + 1] += waited
        self._measures[at + 2] += waited
        self._since = now
        self._op = self._group = layout.NONE
        self._depth = self._num_bytes = 0
        self._write_now()

    def count_op(self, op: int, group: int, sent: int, received: int) -> None:
        """A collective was issued and nobody waits for it here: its count and bytes, not its time."""
        if not self._depth and get_ident() == self._thread:
            self._count_op(op, group, sent, received)

    def _count_op(self, op: int, group: int, sent: int, received: int) -> None:
        measures = self._measures
        at = layout.OP + op * _OP_WIDTH
        measures[at] += 1
        measures[at + 3] += sent
        measures[at + 4] += received
        if group != layout.NONE:
            if op not in _POINT_TO_POINT:  # only the two ends take part: ranks are lined up by what all of them enter
                self._sequences[group] += 1
                self.box.sequence(group, self._sequences[group])
            self._sequence = self._sequences[group]

    # -- the box ---------------------------------------------------------------------------------------

    def last_words(self, kind: str, type_: str, message: str) -> None:
        """What the rank has to say before it goes."""
        number = layout.WORDS_KINDS.index(kind)
        self.box.words(time.time_ns(), number, layout.field(type_, 64), layout.field(message, 1024))

    def owned(self) -> bool:
        """Whether this process is the rank, and not a worker forked from it."""
        return os.getpid() == self._pid

    def dropped(self) -> None:
        """Something could not be noted; the count says how often."""
        self._dropped += 1

    def _fold(self) -> None:
        """Add a step to the totals and start anew."""
        measures, totals = self._measures, self._totals
        for at in (layout.SAMPLES, layout.LOOKUPS, layout.NIC_SENT, layout.NIC_RECEIVED):
            if measures[at] >= 0:
                totals[at] = max(totals[at], 0) + measures[at]
        totals[layout.PHASE :] = map(add, totals[layout.PHASE :], measures[layout.PHASE :])
        self._measures[:] = _NOTHING

    def _fold_outside_steps(self) -> None:
        """What happened between steps: collectives count with their bytes; time and work belong to no step."""
        for at in range(layout.OP, layout.NUM_MEASURES, _OP_WIDTH):
            for field in (at, at + 3, at + 4):  # count, bytes sent, bytes received
                self._totals[field] += self._measures[field]
        self._measures[:] = _NOTHING
        if self._interface is not None:
            self._interface.since_last()

    def _write_now(self) -> None:
        self._transitions += 1
        self.box.now(
            self._since,
            self._activity_since,
            self._step_since,
            self._step,
            self._sequence,
            self._num_bytes,
            self._activity,
            self._phase,
            self._op,
            self._group,
        )

    def _write_totals(self) -> None:
        self.box.totals(
            self._steps,
            self._step_ns,
            self._last_step,
            self._last_checkpoint,
            *self._memory,
            self._overhead_ns,
            self._dropped,
            *self._totals,
        )

    def _write_groups(self) -> None:
        flat: list[bytes | int] = []
        for name, size in self._groups:
            flat += (layout.field(name, 48), size)
        self.box.groups(*flat, *[b"", 0] * (layout.MAX_GROUPS - len(self._groups)))

    def _calibrate(self) -> int:
        """Nanoseconds one transition costs here, so that overhead can be told without timing each one."""
        rounds = 64
        begin = self._clock()
        for _ in range(rounds):
            self.phase(OTHER)
        self._transitions = 0
        return (self._clock() - begin) // rounds


def _amount(number: int) -> int:
    """A count as the box can hold it; raises for what is none."""
    whole = int(number)
    if not 0 <= whole < 1 << 62:
        raise ValueError(f"{number!r} is no count")
    return whole
