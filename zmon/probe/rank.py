"""What this rank is doing right now, marked by the trainer itself into its black box.

One timeline: at any instant the rank is in exactly one phase or in one exposed op; entering an exposed op
suspends the phase. A step reaches from the end of the step before it (or from the moment the rank turned to
training) to its own end, so the phases and exposed ops of a step sum to it, and steps sum to wall-clock.

Nothing here raises into the job, blocks or keeps anything per step: a change of phase is a clock reading, an addition
and two words of mapped memory; everything else is written at the boundary of the step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns, time_ns

from zmon.box import BoxWriter, layout
from zmon.probe.device_time import DeviceTime, Event
from zmon.probe.groups import Groups
from zmon.probe.ledger import Ledger, count
from zmon.schema.names import ACTIVITIES, OPS, PHASES

PHASE_NUMBER = {name: number for number, name in enumerate(PHASES)}
ACTIVITY_NUMBER = {name: number for number, name in enumerate(ACTIVITIES)}
OP_NUMBER = {name: number for number, name in enumerate(OPS)}
INIT, TRAIN, EVAL, CHECKPOINT, DONE = (ACTIVITY_NUMBER[n] for n in ("init", "train", "eval", "checkpoint", "done"))
OTHER = PHASE_NUMBER["other"]
POINT_TO_POINT = (OP_NUMBER["send"], OP_NUMBER["recv"])

_MAX_ELSEWHERE = 4096  # collectives issued by other threads that wait to be counted
_KEY, _PRIME = layout.STATE_KEY, layout.STATE_PRIME
# By activity and phase, outside of ops: what the second word of a state and its time add up to.
_CODES = [[_KEY + _PRIME * layout.state(a, p) for p in range(len(PHASES))] for a in range(len(ACTIVITIES))]
_SEQUENCE, _ENTERED, _BEFORE = layout.SEQUENCE, layout.ENTERED, layout.BEFORE
_LABEL, _LABEL_GROUP, _LABEL_SEQUENCE = layout.LABEL_SHIFT, layout.LABEL_GROUP_SHIFT, layout.LABEL_SEQUENCE_SHIFT
_SEQUENCES, _LOW, _MOST_BYTES = layout.SEQUENCES, layout.SEQUENCES - 1, layout.MOST_BYTES
_PHASE_SHIFT, _OP_SHIFT, _GROUP_SHIFT = layout.PHASE_SHIFT, layout.OP_SHIFT, layout.GROUP_SHIFT
_NO_GROUP = layout.NONE
_EXPOSED, _BETWEEN = layout.EXPOSED, layout.INFLIGHT - layout.EXPOSED
_SENT, _RECEIVED = layout.SENT, layout.RECEIVED

Issued = int | Event | None  # a moment on the host's clock, or on the device


class RankTimeline:
    """Keeps one rank's timeline. Belongs to the thread and process that made it."""

    def __init__(self, box: BoxWriter, ledger: Ledger, clock: Callable[[], int] = monotonic_ns, begun: int = 0) -> None:
        self.box, self.ledger = box, ledger
        self.told_steps = self.told_phases = self.told_activity = False  # by the job itself: then nothing is inferred
        self.lent = 0  # above 0: the rank's thread waits in autograd, whose own threads act for it
        self.step_pending = False  # an update was made and the step goes on: it ends when the rank turns away
        self.make_device_time: Callable[[], DeviceTime | None] | None = None
        self.device: DeviceTime | None = None
        self.overhead_ns = 0  # what watching has taken so far, as those tell who call
        self.activity = INIT
        self._live = box.live
        self._clock = clock
        self._thread = get_ident()
        self._times, self._counts = ledger.times, ledger.counts
        self.current_phase, self._op = OTHER, 0
        self._in_op = False  # collectives made of collectives count once, as the outermost
        self._codes = _CODES[INIT]
        self._slot = 0  # of the live state, by turns 0 and 2
        self.group = Groups(box).number  # of a process group, by name and size
        self._sequences = [0] * layout.MAX_GROUPS
        self._entered = 0
        self._elsewhere: deque[tuple[int, int, int, int, int]] = deque()
        self._busy_elsewhere: set[int] = set()  # threads that are in a collective
        self._step = 1  # the one it works on
        self.since = self._activity_since = self._step_since = begun or clock()
        ledger.turn(self._step, self.since, INIT, 0)
        self._write_place()
        self._write_state()

    # -- the trainer's calls ---------------------------------------------------------------------------

    def phase(self, number: int) -> None:
        """From now on the rank's own time goes into this phase."""
        if self._in_op or get_ident() != self._thread:
            if get_ident() == self._thread:  # else a prefetching thread, which has no part in the rank's timeline
                self.current_phase = number  # it goes on there once the wait is over
            return
        now = self._clock()
        if self.device is None:
            self._times[self.current_phase] += now - self.since
        else:
            self.device.end(self.current_phase)
        self.since = now
        self.current_phase = number
        slot = self._slot = 2 - self._slot
        live = self._live  # here and below as in _write_state: a call would cost as much again
        live[slot] = now
        live[slot + 1] = self._codes[number] - now

    def begin_step(self, number: int | None) -> None:
        """The rank works towards the next optimizer update."""
        if get_ident() != self._thread:
            return
        if self.activity != TRAIN:
            self.turn_to(TRAIN)
        if number is not None and number != self._step:
            self._step = count(number)
            self._write_place()
        if self.current_phase != OTHER:
            self.phase(OTHER)

    def end_step(self) -> None:
        """The update is done: write the step down and begin the next one."""
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
        self._count_elsewhere()
        self.ledger.overhead_ns = self.overhead_ns
        self.ledger.step(self._step, now, duration)
        self._step += 1
        self._write_place()
        self._write_state()

    def turn_to(self, activity: int) -> int:
        """From now on the rank is there for this; returns what it was there for before.

        What has gathered since the last step boundary belongs to no step: its collectives count with their bytes, its
        times do not. The next step begins when the rank turns to training again.
        """
        if get_ident() != self._thread:
            return self.activity
        if self._in_op:
            self.leave_op()
        if self.step_pending:
            self.end_step()
        now, before = self._clock(), self.activity
        self.activity, self._codes = activity, _CODES[activity]
        spent = now - self._step_since
        self.since = self._activity_since = self._step_since = now
        self.current_phase = OTHER
        self._count_elsewhere()
        self.ledger.overhead_ns = self.overhead_ns
        self.ledger.turn(self._step, now, before, spent, leaving=activity == DONE)
        if activity == TRAIN and self.device is None and self.make_device_time is not None:
            self.device = self.ledger.device = self.make_device_time()  # by now the rank uses it, if it has one
        self._write_place()
        self._write_state()
        return before

    # -- the hooks' calls ------------------------------------------------------------------------------

    def enter_op(self, op: int, group: int, sent: int, received: int, count: int = 1, sequence: int = 0) -> bool:
        """A collective begins and the rank waits in it. False: it is part of another and must not be left.

        `sequence`: of one that is not counted now; 0: not known."""
        if self._in_op or (get_ident() != self._thread and not self.mine()):
            return False
        live = self._live
        if count:  # as in _count
            counts = self._counts
            counts[op] += count
            counts[_SENT + op] += sent
            counts[_RECEIVED + op] += received
            if group != _NO_GROUP and op not in POINT_TO_POINT:
                sequence = self._sequences[group] = self._sequences[group] + count
                at = _SEQUENCE + 2 * group
                live[at] = sequence
                live[at + 1] = ~sequence
        now, phase = self._clock(), self.current_phase
        if self.device is None:
            self._times[phase] += now - self.since
        else:
            self.device.end(phase)
        self.since = now
        self._op, self._in_op = op, True
        slot = self._slot = 2 - self._slot
        num_bytes = sent + received
        known = (sequence & _LOW | _SEQUENCES) << _LABEL_SEQUENCE if sequence else 0
        label = op | group << _LABEL_GROUP | known
        entered = (num_bytes if num_bytes < _MOST_BYTES else _MOST_BYTES) | label << _LABEL
        before = self._entered
        if entered != before:  # else it waits for what it issued last
            self._entered = entered
            live[_BEFORE] = before
            live[_BEFORE + 1] = ~before
            live[_ENTERED] = entered
            live[_ENTERED + 1] = ~entered
        live[slot] = now
        state = self.activity | phase << _PHASE_SHIFT | op << _OP_SHIFT | group << _GROUP_SHIFT
        live[slot + 1] = _KEY + _PRIME * state - now
        return True

    def wait_op(self, op: int, group: int, num_bytes: int) -> bool:
        """From now on it waits in the group's next collectives, counted elsewhere. False: nothing to leave."""
        sequence = self._sequences[group] + 1 if group != _NO_GROUP else 0
        return self.enter_op(op, group, num_bytes, 0, 0, sequence)

    def sequence(self, op: int, group: int) -> int:
        """Of the collective that this thread has just issued; 0 where it has none, or it is not known."""
        return 0 if group == _NO_GROUP or op in POINT_TO_POINT or not self.mine() else self._sequences[group]

    def leave_op(self, issued: Issued = None, flying: bool = False) -> None:
        """The rank waits no more; the suspended phase goes on.

        `issued`: when the collective began, where that was not just now; `flying`: it is not over yet.
        """
        if get_ident() != self._thread and not self.mine():
            return self._busy_elsewhere.discard(get_ident())
        if not self._in_op:
            return None  # the end of a step, or a turn, inside of it has left it already
        now, at = self._clock(), _EXPOSED + self._op
        if self.device is not None:
            self.device.end(at, None if isinstance(issued, int) else issued, flying)
        else:
            waited = now - self.since
            self._times[at] += waited
            if not flying:
                self._times[at + _BETWEEN] += now - issued if isinstance(issued, int) else waited
        self.since = now
        self._in_op = False
        slot, live = 2 - self._slot, self._live
        self._slot = slot
        live[slot] = now
        live[slot + 1] = self._codes[self.current_phase] - now
        return None

    def enter_elsewhere(self, op: int, group: int, sent: int, received: int) -> bool:
        """A collective begins in another thread, whose time is not the rank's: it counts as soon as the rank's own
        thread comes by. False: it is part of another and must not be left."""
        ident = get_ident()
        if self.mine() or ident in self._busy_elsewhere:
            return False
        self._busy_elsewhere.add(ident)
        self.count_op(op, group, sent, received)
        return True

    def issue(self) -> Issued:
        """This moment, at which an asynchronous collective begins: to be handed to leave_op."""
        return self._clock() if self.device is None else self.device.mark()

    def count_op(self, op: int, group: int, sent: int, received: int, count: int = 1) -> None:
        """Collectives were issued and nobody waits for them here: their number and bytes, in any thread."""
        if self.mine():
            if not self._in_op:
                self._count(op, group, sent, received, count)
        elif len(self._elsewhere) < _MAX_ELSEWHERE:
            self._elsewhere.append((op, group, sent, received, count))
        else:
            self.ledger.dropped += 1

    def _count(self, op: int, group: int, sent: int, received: int, count: int) -> None:
        counts = self._counts
        counts[op] += count
        counts[_SENT + op] += sent
        counts[_RECEIVED + op] += received
        # Only the two ends take part in send and recv: ranks are lined up by what all of them enter.
        if group != layout.NONE and op not in POINT_TO_POINT:
            sequence = self._sequences[group] = self._sequences[group] + count
            at = _SEQUENCE + 2 * group
            live = self._live
            live[at] = sequence
            live[at + 1] = ~sequence

    # -- the box ---------------------------------------------------------------------------------------

    def last_words(self, kind: str, type_: str, message: str) -> None:
        """What the rank has to say before it goes."""
        number = layout.WORDS_KINDS.index(kind)
        self.box.words(time_ns(), number, layout.field(type_, 64), layout.field(message, 1024))

    def mine(self) -> bool:
        """Whether this thread acts for the rank: its own, or one of autograd's (which Python did not start) while the
        rank's own waits for them."""
        ident = get_ident()
        return ident == self._thread or (self.lent > 0 and ident not in threading._active)  # type: ignore[attr-defined]

    def adopt(self) -> None:
        """This thread is the one that trains: the rank's own from now on."""
        if not self._in_op:
            self._thread = get_ident()

    def _count_elsewhere(self) -> None:
        while self._elsewhere:
            self._count(*self._elsewhere.popleft())

    def _write_state(self) -> None:
        slot = self._slot = 2 - self._slot
        self._live[slot] = self.since
        self._live[slot + 1] = self._codes[self.current_phase] - self.since

    def _write_place(self) -> None:
        self.box.place(self.ledger.boundaries, self._activity_since, self._step_since, self._step)
