"""The timeline of this rank: its current activity, phase and collective, written into its black box.

At any instant the rank is in exactly one phase or in one exposed op; entering an exposed op suspends the phase. A step
lasts from the end of the previous step (or from the moment the rank turned to training) to its own end. So the phases
and exposed ops of a step sum to its duration, and steps sum to wall-clock.

Nothing here raises into the job, blocks, or keeps memory per step. A change of phase is a clock reading, an addition
and two words of mapped memory; everything else is written at the boundary of the step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from weakref import WeakSet

from zmon.box import BoxWriter, layout
from zmon.box.identity import field
from zmon.probe.device_time import DeviceTime, Event
from zmon.probe.ledger import Ledger, as_count
from zmon.schema.names import ACTIVITIES, OPS, PHASES

PHASE_NUMBER = {name: number for number, name in enumerate(PHASES)}
ACTIVITY_NUMBER = {name: number for number, name in enumerate(ACTIVITIES)}
OP_NUMBER = {name: number for number, name in enumerate(OPS)}
INIT, TRAIN, EVAL, CHECKPOINT, DONE, COMPILE, LOADER_START = (
    ACTIVITY_NUMBER[name] for name in ("init", "train", "eval", "checkpoint", "done", "compile", "loader_start")
)
OTHER = PHASE_NUMBER["other"]
# By op. send and recv have no sequence, because ranks are aligned by collectives that all of them enter.
_HAS_SEQUENCE = bytes(op not in ("send", "recv") for op in OPS)

_MAX_QUEUED_OPS = 4096  # collectives of other threads, which the rank's own thread counts at its next boundary
_KEY, _PRIME = layout.STATE_KEY, layout.STATE_PRIME
# The sum of the two words of a state outside of ops, by activity and phase.
_CODES = [
    [_KEY + _PRIME * layout.state(activity, phase) for phase in range(len(PHASES))]
    for activity in range(len(ACTIVITIES))
]
_SEQUENCE, _ENTERED, _BEFORE = layout.SEQUENCE, layout.ENTERED, layout.BEFORE
_LABEL, _LABEL_GROUP, _LABEL_SEQUENCE = layout.LABEL_SHIFT, layout.LABEL_GROUP_SHIFT, layout.LABEL_SEQUENCE_SHIFT
_SEQUENCES, _LOW_BITS, _MAX_BYTES = layout.SEQUENCES, layout.SEQUENCES - 1, layout.MAX_BYTES
_PHASE_SHIFT, _OP_SHIFT, _GROUP_SHIFT = layout.PHASE_SHIFT, layout.OP_SHIFT, layout.GROUP_SHIFT
_NO_GROUP = layout.NONE
# By ident. `threading.current_thread` would also register threads that Python did not start.
_python_threads: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
_EXPOSED, _TO_INFLIGHT = layout.EXPOSED, layout.INFLIGHT - layout.EXPOSED
_SENT, _RECEIVED = layout.SENT, layout.RECEIVED

Issued = int | Event | None  # when a collective was issued: a time of the host's clock, or an event of the device


class Groups:
    """The first eight process groups of a rank, with their numbers in the box; later ones have no number."""

    def __init__(self, box: BoxWriter) -> None:
        self._box = box
        self._groups: list[tuple[str, int]] = []
        self._write()

    def number(self, name: str, size: int) -> int:
        """Return the number of this group; a new group gets the next number, or NONE if there are eight already."""
        if (name, size) in self._groups:
            return self._groups.index((name, size))
        if len(self._groups) == layout.MAX_GROUPS:
            return layout.NONE
        self._groups.append((name, size))
        self._write()
        return len(self._groups) - 1

    def forget(self) -> None:
        """Forget all groups, so that new ones get their numbers."""
        self._groups.clear()
        self._write()

    def _write(self) -> None:
        flat: list[bytes | int] = []
        for name, size in self._groups:
            flat += (field(name, layout.GROUP_NAME_BYTES), size)
        self._box.groups(*flat, *[b"", 0] * (layout.MAX_GROUPS - len(self._groups)))


class RankTimeline:
    """The timeline of one rank; it belongs to the process that created it, and to the thread that trains.

    That thread is at first the one that created it. A job may run each step or each epoch in another thread, as
    `asyncio.to_thread` does. So a thread that trained before becomes the rank's own with its first mark between two
    steps. The hooks adopt a thread that has not trained before (hooks/steps.py).
    """

    def __init__(self, box: BoxWriter, ledger: Ledger, clock: Callable[[], int] = monotonic_ns, start: int = 0) -> None:
        self.box, self.ledger = box, ledger
        # True if the job itself marks its steps, phases or activity: then nothing is inferred.
        self.explicit_steps = self.explicit_phases = self.explicit_activity = False
        self.autograd_depth = 0  # above 0: the rank's thread waits in autograd, whose threads act for it
        self.step_pending = False  # an optimizer has stepped, another may follow: a change of activity ends the step
        self.make_device_time: Callable[[], DeviceTime | None] | None = None
        self.device: DeviceTime | None = None
        self.overhead_ns = 0  # the time spent in the probe so far, added up by the callers
        self.activity = INIT
        self._live = box.live
        self._clock = clock
        self._trainers: WeakSet[threading.Thread] = WeakSet()  # threads that are the rank's own, or were
        self._times, self._counts = ledger.times, ledger.counts
        self.current_phase, self._op = OTHER, 0
        self._in_op = False  # collectives inside a collective are not counted
        self.adopt_thread()
        self._codes = _CODES[INIT]
        self._slot = 0  # the slot of the live state that was written last: alternately 0 and 2
        self._groups = Groups(box)
        self.group = self._groups.number  # returns the number of a process group, given name and size
        self._entered = 0
        self._queued_ops: deque[tuple[int, int, int, int, int]] = deque()  # the arguments of `_count`
        self._threads_in_op: set[int] = set()  # other threads that are in a collective
        self.step = 1  # the current step
        self.since = self._activity_since = self._step_since = start or clock()
        ledger.end_activity(self.step, self.since, INIT, 0, 0)
        self._write_place()
        self._write_state()

    def phase(self, number: int) -> None:
        """Attribute the rank's self time to this phase from now on."""
        if get_ident() != self._thread:  # a prefetching thread, which is not part of the rank's timeline
            return
        if self._in_op:
            self.current_phase = number  # takes effect when the rank leaves the op
            return
        now = self._clock()
        if self.device is None:
            self._times[self.current_phase] += now - self.since
        else:
            self.device.end(self.current_phase)
        self.since = now
        self.current_phase = number
        slot = self._slot = 2 - self._slot
        live = self._live  # here and below _write_state is inlined, because a call would double the cost
        live[slot] = now
        live[slot + 1] = self._codes[number] - now

    def begin_step(self, number: int | None) -> None:
        """Turn to training and begin the step with this number."""
        if get_ident() != self._thread:
            return
        if self.activity != TRAIN:
            self.turn_to(TRAIN)
        if number is not None and number != self.step:
            self.step = as_count(number)
            self._write_place()
        if self.current_phase != OTHER:
            self.phase(OTHER)

    def end_step(self) -> None:
        """Write the boundary of the step and begin the next one."""
        if get_ident() != self._thread:
            return
        if self._in_op:
            self.leave_op()
        now = self._clock()
        if self.device is None:
            self._times[self.current_phase] += now - self.since
        else:
            self.device.end(self.current_phase)
        self.step_pending = False
        duration = now - self._step_since
        self.since = self._step_since = now
        self.current_phase = OTHER
        self._count_queued_ops()
        self.ledger.step(self.step, now, duration, self.overhead_ns)
        self.step += 1
        self._write_place()
        self._write_state()

    def turn_to(self, activity: int) -> int:
        """Change the activity of the rank and return the previous one.

        The time since the last step boundary belongs to no step, but collectives and their bytes are counted. The next
        step begins when the rank turns to training again. If the rank is in this activity already, it stays in it.
        """
        if not self.acts_for_rank():
            return self.activity
        if self._in_op:
            self.leave_op()
        if self.step_pending:
            self.end_step()
        now, previous = self._clock(), self.activity
        self.activity, self._codes = activity, _CODES[activity]
        elapsed = now - self._step_since
        self.since = self._step_since = now
        if activity != previous:
            self._activity_since = now
        self.current_phase = OTHER
        self._count_queued_ops()
        self.ledger.end_activity(self.step, now, previous, elapsed, self.overhead_ns, leaving=activity == DONE)
        if activity == TRAIN and self.device is None and self.make_device_time is not None:
            self.device = self.ledger.device = self.make_device_time()  # a rank with a GPU has initialized it by now
        self._write_place()
        self._write_state()
        return previous

    def enter_op(self, op: int, group: int, sent: int, received: int, count: int = 1, sequence: int = 0) -> bool:
        """Enter a collective in which the rank waits; return False if it is part of another and must not be left."""
        if self._in_op or (get_ident() != self._thread and not self.acts_for_rank()):
            return False
        live = self._live
        if count:  # inlined _count; otherwise `sequence` is that of a collective counted earlier, or 0 if unknown
            counts = self._counts
            counts[op] += count
            counts[_SENT + op] += sent
            counts[_RECEIVED + op] += received
            if group != _NO_GROUP and _HAS_SEQUENCE[op]:
                index = _SEQUENCE + 2 * group
                live[index] = sequence = live[index] + count
                live[index + 1] = ~sequence
        now, phase = self._clock(), self.current_phase
        if self.device is None:
            self._times[phase] += now - self.since
        else:
            self.device.end(phase)
        self.since = now
        self._op, self._in_op = op, True
        slot = self._slot = 2 - self._slot
        num_bytes = sent + received
        sequence_bits = (sequence & _LOW_BITS | _SEQUENCES) << _LABEL_SEQUENCE if sequence else 0
        label = op | group << _LABEL_GROUP | sequence_bits
        entered = (num_bytes if num_bytes < _MAX_BYTES else _MAX_BYTES) | label << _LABEL
        previous = self._entered
        if entered != previous:  # else the rank waits for the collective that it issued last
            self._entered = entered
            live[_BEFORE] = previous
            live[_BEFORE + 1] = ~previous
            live[_ENTERED] = entered
            live[_ENTERED + 1] = ~entered
        live[slot] = now
        state = self.activity | phase << _PHASE_SHIFT | op << _OP_SHIFT | group << _GROUP_SHIFT
        live[slot + 1] = _KEY + _PRIME * state - now
        return True

    def wait_op(self, op: int, group: int, num_bytes: int) -> bool:
        """Enter the group's next collective, which is counted elsewhere; return False if it must not be left."""
        sequence = self._live[_SEQUENCE + 2 * group] + 1 if group != _NO_GROUP else 0
        return self.enter_op(op, group, num_bytes, 0, 0, sequence)

    def sequence(self, op: int, group: int) -> int:
        """Return the sequence of the collective that this thread has just issued; 0 if it has none or it is unknown."""
        if group == _NO_GROUP or not _HAS_SEQUENCE[op] or not self.acts_for_rank():
            return 0
        return self._live[_SEQUENCE + 2 * group]

    def leave_op(self, issued: Issued = None, in_flight: bool = False) -> None:
        """Leave the collective and resume the suspended phase.

        `issued` is when the collective was issued, if before `enter_op`. `in_flight` means that it is not done yet.
        """
        if get_ident() != self._thread and not self.acts_for_rank():
            self._threads_in_op.discard(get_ident())
            return
        if not self._in_op:
            return  # the end of a step or activity inside the collective has left it already
        now, index = self._clock(), _EXPOSED + self._op
        if self.device is not None:
            self.device.end(index, None if isinstance(issued, int) else issued, in_flight)
        else:
            exposed = now - self.since
            self._times[index] += exposed
            if not in_flight:
                self._times[index + _TO_INFLIGHT] += now - issued if isinstance(issued, int) else exposed
        self.since = now
        self._in_op = False
        slot, live = 2 - self._slot, self._live
        self._slot = slot
        live[slot] = now
        live[slot + 1] = self._codes[self.current_phase] - now

    def enter_op_elsewhere(self, op: int, group: int, sent: int, received: int) -> bool:
        """Enter a collective in another thread, whose time is not the rank's; return False if it must not be left."""
        ident = get_ident()
        if self.acts_for_rank() or ident in self._threads_in_op:
            return False
        self._threads_in_op.add(ident)
        self.count_op(op, group, sent, received)
        return True

    def issue(self) -> Issued:
        """Return the current moment, at which an asynchronous collective is issued, for `leave_op`."""
        return self._clock() if self.device is None else self.device.mark()

    def count_op(self, op: int, group: int, sent: int, received: int, count: int = 1) -> None:
        """Count collectives that were issued without waiting, and their bytes; may be called in any thread."""
        if self.acts_for_rank():
            if not self._in_op:
                self._count(op, group, sent, received, count)
        elif len(self._queued_ops) < _MAX_QUEUED_OPS:
            self._queued_ops.append((op, group, sent, received, count))
        else:
            self.ledger.dropped += 1

    def _count(self, op: int, group: int, sent: int, received: int, count: int) -> None:
        counts = self._counts
        counts[op] += count
        counts[_SENT + op] += sent
        counts[_RECEIVED + op] += received
        if group != _NO_GROUP and _HAS_SEQUENCE[op]:
            index, live = _SEQUENCE + 2 * group, self._live
            live[index] = sequence = live[index] + count
            live[index + 1] = ~sequence

    def leave_groups(self) -> None:
        """Forget the process groups, because the rank has left all of them; new ones count their collectives from 0.

        torch gives the new ones the names of the old ones. If the rank counted on, its counts would not compare with
        those of a rank whose process is new.
        """
        if self._in_op:  # another thread has joined them, and the collective in flight needs its group
            return
        self._count_queued_ops()
        self._groups.forget()
        self._entered = 0
        for index in range(_ENTERED, layout.NUM_LIVE, 2):
            self.box.number(index, 0)

    def acts_for_rank(self) -> bool:
        """Return True if this thread is the rank's own, or one of autograd's while the rank's own waits for them.

        A thread that trained before becomes the rank's own here, if the rank is between two steps.
        """
        ident = get_ident()
        if ident == self._thread:
            return True
        thread = _python_threads.get(ident)
        if thread is None:
            return self.autograd_depth > 0  # Python does not know autograd's threads, because it did not start them
        return thread in self._trainers and self._is_between_steps() and self.adopt_thread()

    def adopt_thread(self) -> bool:
        """Make this thread the rank's own, because it trains; return False if the rank's own is busy in torch."""
        if (self._in_op or self.autograd_depth > 0) and not self.own_thread_has_ended():
            return False
        self._thread = get_ident()
        if (thread := _python_threads.get(self._thread)) is not None:
            self._trainers.add(thread)
        return True

    def own_thread_has_ended(self) -> bool:
        """Return True if the rank's own thread runs no more, as when each epoch has a thread of its own."""
        return self._thread not in _python_threads

    def trains_elsewhere(self) -> bool:
        """Return True if the rank's own thread is another one than this, and still runs."""
        return get_ident() != self._thread and not self.own_thread_has_ended()

    def _is_between_steps(self) -> bool:
        return self.since == self._step_since and self.current_phase == OTHER

    def _count_queued_ops(self) -> None:
        while self._queued_ops:
            self._count(*self._queued_ops.popleft())

    def _write_state(self) -> None:
        slot = self._slot = 2 - self._slot
        self._live[slot] = self.since
        self._live[slot + 1] = self._codes[self.current_phase] - self.since

    def _write_place(self) -> None:
        self.box.place(self.ledger.boundaries, self._activity_since, self._step_since, self.step)
