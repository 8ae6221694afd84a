"""Tests of the timeline of a rank.

A rank is in exactly one phase or exposed collective at any time, so the parts of a step sum to its duration.
"""

import contextlib

import pytest

from tests.boxes import Box
from tests.probe.reading import current_state, ms, parts_sum_to_duration, read_sequences, read_steps, time_by_part
from zmon.box import layout
from zmon.probe.rank import DONE, EVAL, OP_NUMBER, OTHER, PHASE_NUMBER, TRAIN
from zmon.schema.names import PHASES

ALL_REDUCE, ALL_TO_ALL = OP_NUMBER["all_reduce"], OP_NUMBER["all_to_all"]
FORWARD, BACKWARD, DATA = PHASE_NUMBER["forward"], PHASE_NUMBER["backward"], PHASE_NUMBER["data"]


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


# -- a step is the sum of its parts ------------------------------------------------------------------------


def test_collective_suspends_the_phase(box):
    box.timeline.begin_step(None)
    box.timeline.phase(BACKWARD)
    box.clock.sleep(0.003)
    assert box.timeline.enter_op(ALL_REDUCE, 0, 80, 80)
    box.clock.sleep(0.005)
    box.timeline.leave_op()
    box.clock.sleep(0.002)
    box.timeline.end_step()
    (record,), _ = read_steps(box)
    assert time_by_part(record.measures) == {"backward": 5, "all_reduce": 5}
    assert parts_sum_to_duration(record)
    assert ms(record.duration) == 10


def test_time_between_steps_belongs_to_the_next_step(box):
    box.steps(1)
    box.clock.sleep(0.007)  # the rank loads the next batch, outside `with step()`
    box.steps(1)
    records, totals = read_steps(box)
    assert time_by_part(records[1].measures) == {"other": 7, "forward": 10, "all_to_all": 10}
    assert [ms(record.duration) for record in records] == [20, 27]
    assert records[1].start == pytest.approx(records[0].start + records[0].duration, abs=1e-8)
    assert ms(totals.step_seconds) == 47


def test_phase_marked_between_steps_counts_for_the_next_step(box):
    box.steps(1)
    box.timeline.phase(DATA)
    box.clock.sleep(0.004)
    box.steps(1)
    assert time_by_part(read_steps(box)[0][1].measures)["data"] == 4


def test_evaluation_between_steps_belongs_to_no_step(box):
    box.steps(1)
    before = box.timeline.turn_to(EVAL)
    box.clock.sleep(100)
    box.timeline.turn_to(before)
    box.clock.sleep(0.001)
    box.steps(1)
    records, totals = read_steps(box)
    assert before == TRAIN
    assert ms(records[1].duration) == 21
    assert parts_sum_to_duration(records[1])
    assert ms(totals.step_seconds) == 41


def test_evaluation_inside_a_step_leaves_a_step_with_a_correct_sum(box):
    box.timeline.begin_step(None)
    box.clock.sleep(0.010)
    before = box.timeline.turn_to(EVAL)
    box.clock.sleep(1)
    box.timeline.turn_to(before)
    box.clock.sleep(0.002)
    box.timeline.end_step()
    (record,), _ = read_steps(box)
    assert ms(record.duration) == 2
    assert parts_sum_to_duration(record)


def test_pending_step_ends_when_the_activity_changes(box):
    """The second of two optimizers was skipped, so the step continues until evaluation ends it."""
    box.timeline.begin_step(None)
    box.clock.sleep(0.010)
    box.timeline.step_pending = True
    box.timeline.turn_to(EVAL)
    (record,), totals = read_steps(box)
    assert ms(record.duration) == 10
    assert totals.steps == 1
    assert not box.timeline.step_pending


def test_collective_inside_a_collective_is_not_counted(box):
    box.timeline.begin_step(None)
    assert box.timeline.enter_op(ALL_TO_ALL, 0, 10, 20)
    box.clock.sleep(0.001)
    assert not box.timeline.enter_op(ALL_REDUCE, 0, 1000, 1000)
    assert not box.timeline.wait_op(ALL_REDUCE, 0, 1000)
    assert not box.timeline.enter_op_elsewhere(ALL_REDUCE, 0, 1000, 1000)
    box.timeline.count_op(ALL_REDUCE, 0, 1000, 1000)
    box.clock.sleep(0.002)
    box.timeline.leave_op()
    box.timeline.end_step()
    (record,), _ = read_steps(box)
    assert list(record.measures.ops) == ["all_to_all"]
    op = record.measures.ops["all_to_all"]
    assert (op.count, op.sent_bytes, op.received_bytes, ms(op.exposed_seconds)) == (1, 10, 20, 3)


def test_asynchronous_collective_is_exposed_during_the_wait_only(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 10, 20)
    issued = box.timeline.issue()
    box.timeline.leave_op(in_flight=True)
    box.timeline.phase(BACKWARD)
    box.clock.sleep(0.010)
    assert box.timeline.wait_op(ALL_REDUCE, 0, 30)
    box.clock.sleep(0.004)
    box.timeline.leave_op(issued)
    box.timeline.end_step()
    (record,), _ = read_steps(box)
    op = record.measures.ops["all_reduce"]
    assert (op.count, op.sent_bytes, op.received_bytes) == (1, 10, 20)
    assert (ms(op.exposed_seconds), ms(op.inflight_seconds)) == (4, 14)
    assert time_by_part(record.measures) == {"backward": 10, "all_reduce": 4}


def test_collective_without_a_wait_has_bytes_and_no_time(box):
    box.timeline.begin_step(None)
    box.timeline.count_op(ALL_REDUCE, 0, 10, 20)
    box.clock.sleep(0.001)
    box.timeline.end_step()
    (record,), _ = read_steps(box)
    op = record.measures.ops["all_reduce"]
    assert (op.count, op.sent_bytes, op.received_bytes, op.exposed_seconds, op.inflight_seconds) == (1, 10, 20, 0, 0)
    assert time_by_part(record.measures) == {"other": 1}


def test_time_of_a_step_that_raised_belongs_to_the_next_step(box):
    """The context of `zmon.step()` does not end a step that raised."""
    box.timeline.begin_step(None)
    box.timeline.phase(FORWARD)
    box.clock.sleep(0.010)
    box.steps(1)  # the job skips the batch and calls `begin_step` again, without `end_step`
    (record,), totals = read_steps(box)
    assert ms(record.duration) == 30
    assert parts_sum_to_duration(record)
    assert totals.steps == 1


@pytest.mark.parametrize("turn", ["end_step", "turn_to"])
def test_collective_ends_with_its_step_or_activity(box, turn):
    """An optimizer may step in a callback of backward, while the rank waits in a collective."""
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 1, 1)
    box.clock.sleep(0.010)
    box.timeline.end_step() if turn == "end_step" else box.timeline.turn_to(TRAIN)
    box.timeline.phase(BACKWARD)
    box.clock.sleep(0.005)
    box.timeline.leave_op()
    box.timeline.end_step()
    record = read_steps(box)[0][-1]
    assert time_by_part(record.measures) == {"backward": 5}
    assert parts_sum_to_duration(record)


def test_phase_marked_inside_a_collective_begins_after_the_collective(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 1, 1)
    box.timeline.phase(BACKWARD)
    assert current_state(box).op == "all_reduce"
    box.clock.sleep(0.001)
    box.timeline.leave_op()
    assert current_state(box).phase == "backward"
    box.clock.sleep(0.002)
    box.timeline.end_step()
    assert time_by_part(read_steps(box)[0][0].measures) == {"all_reduce": 1, "backward": 2}


def test_totals_are_the_sums_of_the_records(box):
    for number in range(5):
        box.timeline.begin_step(None)
        box.ledger.work(32, 100 + number)
        box.steps(1)
    records, totals = read_steps(box)
    assert totals.measures.samples == sum(record.measures.samples for record in records) == 160
    assert totals.measures.lookups == sum(record.measures.lookups for record in records) == 510
    whole, each = totals.measures.ops["all_to_all"], [record.measures.ops["all_to_all"] for record in records]
    assert (whole.count, whole.sent_bytes, whole.received_bytes) == (5, 500, 300)
    assert whole.sent_bytes == sum(op.sent_bytes for op in each)
    assert whole.exposed_seconds == pytest.approx(sum(op.exposed_seconds for op in each), abs=1e-9)
    assert whole.inflight_seconds == pytest.approx(whole.exposed_seconds, abs=1e-9)


def test_collective_outside_steps_is_counted_in_the_totals_only(box):
    box.timeline.enter_op(OP_NUMBER["broadcast"], 0, 8, 0)
    box.clock.sleep(0.5)
    box.timeline.leave_op()
    box.steps(1)
    (record,), totals = read_steps(box)
    assert "broadcast" not in record.measures.ops
    broadcast = totals.measures.ops["broadcast"]
    assert (broadcast.count, broadcast.sent_bytes, broadcast.exposed_seconds) == (1, 8, 0.0)  # only steps have time
    assert ms(totals.step_seconds) == 20


# -- the state ---------------------------------------------------------------------------------------------


def test_steps_are_counted_from_the_last_explicit_number(box):
    for number, expected in ((None, 1), (None, 2), (500, 500), (None, 501)):
        box.timeline.begin_step(number)
        assert current_state(box).step == expected
        box.timeline.end_step()


def test_lease_is_renewed_at_the_end_of_a_step_and_not_at_its_begin(box):
    box.steps(1)
    boundary = current_state(box).step_since
    assert box.clock.ns - boundary < 1000
    box.clock.sleep(1)
    box.timeline.begin_step(None)
    assert current_state(box).step_since == boundary
    box.clock.sleep(1)
    box.timeline.end_step()
    assert box.clock.ns - current_state(box).step_since < 1000


def test_activity_begins_when_the_rank_changes_its_activity(box):
    box.steps(1)
    box.clock.sleep(1)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(3)
    assert current_state(box).activity == "eval"
    assert ms((box.clock.ns - current_state(box).activity_since) * 1e-9) == 3000


def test_rank_that_ended_inside_a_collective_has_no_collective_in_flight(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 1, 1)
    box.timeline.turn_to(DONE)
    assert (current_state(box).activity, current_state(box).op) == ("done", None)


def test_sequence_counts_per_group(box):
    first, second = box.timeline.group("0", 4), box.timeline.group("tables", 2)
    for group in (first, second, first):
        box.timeline.enter_op(ALL_REDUCE, group, 8, 8)
        box.timeline.leave_op()
    box.timeline.count_op(ALL_REDUCE, second, 8, 8, 3)
    assert (read_sequences(box)[first], read_sequences(box)[second]) == (2, 4)


def test_waiting_for_a_collective_does_not_advance_the_sequence(box):
    group = box.timeline.group("0", 4)
    box.timeline.wait_op(ALL_REDUCE, group, 8)
    assert (current_state(box).op, current_state(box).num_bytes, current_state(box).sequence) == ("all_reduce", 8, 1)
    box.timeline.leave_op()
    assert read_sequences(box)[group] == 0


def test_ninth_group_has_no_number_and_does_not_change_the_others(box):
    numbers = [box.timeline.group(str(name), 2) for name in range(9)]
    assert numbers == [*range(8), layout.NONE]
    assert box.timeline.enter_op(ALL_REDUCE, layout.NONE, 8, 8)
    assert (current_state(box).group, current_state(box).op) == (None, "all_reduce")
    box.timeline.leave_op()
    assert set(read_sequences(box).values()) == {0}


def test_point_to_point_does_not_advance_the_sequence(box):
    """Only two members of a group take part in a send, so the sequences of the others would differ."""
    group = box.timeline.group("0", 4)
    box.timeline.enter_op(OP_NUMBER["send"], group, 8, 0)
    box.timeline.leave_op()
    assert read_sequences(box)[group] == 0


def test_phase_after_a_step_is_other(box):
    box.steps(1)
    assert current_state(box).phase == PHASES[OTHER]


@pytest.mark.parametrize("number", ["seven", 1.5, 2**70, float("nan"), float("inf"), -1, object()])
def test_invalid_step_number_loses_no_later_step(box, number):
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # zmon.step() reports it once and continues
        box.timeline.begin_step(number)
    box.timeline.end_step()
    box.timeline.begin_step(7)
    box.timeline.end_step()
    box.steps(2)
    assert [record.step for record in read_steps(box)[0]][-3:] == [7, 8, 9]
