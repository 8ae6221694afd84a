"""Tests of the timeline of a rank with random sequences of calls.

After each call the state in the box equals that of a simple model, and totals have not fallen. At the end, the parts of
each step sum to its duration, and collectives are neither lost nor counted twice.
"""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.boxes import Box
from tests.probe.reading import current_state, parts_sum_to_duration, read_steps
from zmon.probe.rank import OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.names import ACTIVITIES, OPS, PHASES

NANOSECONDS = st.integers(0, 10**9)
BYTES = st.integers(0, 10**12)


class TimelineModel(RuleBasedStateMachine):
    """A timeline, and a model of what its box has after each call."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.box = Box(Path(self.folder.name))
        self.timeline = self.box.timeline
        self.activity, self.phase, self.op, self.step = "init", "other", None, 1
        self.shown_phase = "other"  # in the box: a phase marked inside a collective is shown after the collective
        self.counts = {op: [0, 0, 0] for op in OPS}  # calls, bytes sent, bytes received
        self.num_ended = 0  # steps
        self.issued = []  # when asynchronous collectives were issued
        self.totals = read_steps(self.box).totals

    def teardown(self):
        self.num_ended += self.timeline.step_pending
        self.timeline.turn_to(ACTIVITIES.index("done"))
        records, totals = read_steps(self.box)
        assert all(map(parts_sum_to_duration, records))
        assert len(records) == totals.steps == self.num_ended
        assert abs(totals.step_seconds - sum(record.duration for record in records)) < 1e-6
        for phase in PHASES:  # self time counts in steps only
            total = totals.measures.phases.get(phase, 0)
            assert abs(total - sum(r.measures.phases.get(phase, 0) for r in records)) < 1e-6
        for op in OPS:
            measured = totals.measures.ops.get(op)
            counts = [measured.count, measured.sent_bytes, measured.received_bytes] if measured else [0, 0, 0]
            assert counts == self.counts[op]
            if measured:
                assert measured.inflight_seconds >= 0
        self.folder.cleanup()

    def expect_count(self, op, sent, received, number=1):
        self.counts[op] = [a + b for a, b in zip(self.counts[op], (number, sent, received), strict=True)]

    @rule(nanoseconds=NANOSECONDS)
    def pass_time(self, nanoseconds):
        self.box.clock.ns += nanoseconds

    @rule(phase=st.sampled_from(PHASES))
    def mark_phase(self, phase):
        assert self.timeline.current_phase == PHASE_NUMBER[self.phase]
        self.timeline.phase(PHASE_NUMBER[phase])
        self.phase = phase
        if self.op is None:
            self.shown_phase = phase

    @rule(op=st.sampled_from(OPS), sent=BYTES, received=BYTES)
    def enter(self, op, sent, received):
        if self.timeline.enter_op(OP_NUMBER[op], 0, sent, received):
            assert self.op is None
            self.op = op
            self.expect_count(op, sent, received)
        else:
            assert self.op is not None

    @rule(op=st.sampled_from(OPS), num_bytes=BYTES)
    def wait(self, op, num_bytes):
        if self.timeline.wait_op(OP_NUMBER[op], 0, num_bytes):
            assert self.op is None
            self.op = op

    @rule(in_flight=st.booleans())
    def leave(self, in_flight):
        """Leave a collective, also if there is none to leave."""
        self.timeline.leave_op(in_flight=in_flight)
        self.expect_left()

    @rule()
    def issue(self):
        self.issued.append(self.timeline.issue())

    @precondition(lambda self: self.issued)
    @rule()
    def leave_issued(self):
        self.timeline.leave_op(self.issued.pop())
        self.expect_left()

    def expect_left(self):
        self.op = None
        self.shown_phase = self.phase

    @rule(op=st.sampled_from(OPS), sent=BYTES, received=BYTES, number=st.integers(1, 5))
    def count_op(self, op, sent, received, number):
        self.timeline.count_op(OP_NUMBER[op], 0, sent, received, number)
        if self.op is None:  # otherwise the call belongs to the collective that was entered
            self.expect_count(op, sent, received, number)

    @rule(number=st.none() | st.integers(1, 10**6))
    def begin_step(self, number):
        self.timeline.begin_step(number)
        if self.activity != "train":
            self.expect_turn("train")
        if number is not None:
            self.step = number
        self.phase = "other"
        if self.op is None:
            self.shown_phase = "other"

    @rule()
    def end_step(self):
        self.timeline.end_step()
        self.num_ended += 1
        self.step += 1
        self.phase = "other"
        self.expect_left()

    @rule()
    def update_is_pending(self):
        self.timeline.step_pending = True

    @rule(activity=st.sampled_from(ACTIVITIES[:-1]))
    def turn_to(self, activity):
        assert self.timeline.turn_to(ACTIVITIES.index(activity)) == ACTIVITIES.index(self.activity)
        self.expect_turn(activity)

    def expect_turn(self, activity):
        if read_steps(self.box).totals.steps > self.num_ended:  # the pending step ended with the activity
            self.num_ended += 1
            self.step += 1
        self.activity, self.phase = activity, "other"
        self.expect_left()

    @invariant()
    def state_in_the_box_equals_the_model(self):
        state = current_state(self.box)
        assert (state.activity, state.phase, state.op) == (self.activity, self.shown_phase, self.op)
        assert state.step == (self.step if self.timeline.activity == TRAIN else self.step - 1)

    @invariant()
    def totals_only_grow(self):
        before, self.totals = self.totals, read_steps(self.box).totals
        after = self.totals
        assert after.steps >= before.steps
        assert after.step_seconds >= before.step_seconds
        assert after.overhead_seconds >= before.overhead_seconds
        for phase, seconds in before.measures.phases.items():
            assert after.measures.phases[phase] >= seconds
        for op, old in before.measures.ops.items():
            for name in ("count", "sent_bytes", "received_bytes", "exposed_seconds", "inflight_seconds"):
                assert getattr(after.measures.ops[op], name) >= getattr(old, name)


TimelineModel.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAnyOrder = TimelineModel.TestCase
