"""Tests of the timeline of a rank: it is in one phase or exposed collective at a time, so a step is their sum."""

import contextlib

import pytest

from tests.boxes import read_part
from tests.probe.reading import current_state, ms, parts_sum_to_duration, read_sequences, read_steps, time_by_part
from zmon.box import layout
from zmon.probe.rank import ACTIVITY_NUMBER, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN

ALL_REDUCE, ALL_TO_ALL = OP_NUMBER["all_reduce"], OP_NUMBER["all_to_all"]


def act(box, words):
    """Let a rank act: a number is milliseconds that pass, a phase is marked, a collective is entered, and so on.

    `step` is a step with 10 ms of forward and 10 ms of an all-to-all.
    """
    line = box.timeline
    actions = {
        "begin": lambda: line.begin_step(None),
        "end": line.end_step,
        "leave": line.leave_op,
        "step": lambda: box.steps(1),
        "pending": lambda: setattr(line, "step_pending", True),
    }
    for word in words.split():
        if word in actions:
            actions[word]()
        elif word in PHASE_NUMBER:
            line.phase(PHASE_NUMBER[word])
        elif word in OP_NUMBER:
            line.enter_op(OP_NUMBER[word], 0, 80, 80)
        elif word in ACTIVITY_NUMBER:
            line.turn_to(ACTIVITY_NUMBER[word])
        else:
            box.clock.sleep(float(word) / 1000)


STEP = {"forward": 10, "all_to_all": 10}
STEPS = {  # what a rank does → milliseconds of each part of each step
    "collective suspends the phase": ("begin backward 3 all_reduce 5 leave 2 end", [{"backward": 5, "all_reduce": 5}]),
    # The rank loads the next batch, outside `with step()`.
    "time between steps belongs to the next step": ("step 7 step", [STEP, {"other": 7} | STEP]),
    "phase marked between steps counts for the next step": ("step data 4 step", [STEP, {"data": 4} | STEP]),
    "evaluation inside a step": ("begin 10 eval 1000 train 2 end", [{"other": 2}]),
    # The second of two optimizers was skipped, so the step continues until evaluation ends it.
    "pending step ends when the activity changes": ("begin 10 pending eval", [{"other": 10}]),
    # The context of `zmon.step()` does not end a step that raised: the job skips the batch and begins another one.
    "time of a step that raised belongs to the next step": (
        "begin forward 10 step", [{"forward": 20, "all_to_all": 10}]
    ),
    # An optimizer may step in a callback of backward, while the rank waits in a collective.
    "collective ends with its step": (
        "begin all_reduce 10 end backward 5 leave end", [{"all_reduce": 10}, {"backward": 5}]
    ),
    "collective ends with its activity": ("begin all_reduce 10 train backward 5 leave end", [{"backward": 5}]),
    "phase marked inside a collective begins after it": (
        "begin all_reduce backward 1 leave 2 end", [{"all_reduce": 1, "backward": 2}]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "steps"), STEPS.values(), ids=STEPS)
def test_parts_of_each_step_sum_to_it(box, words, steps):
    act(box, words)
    records, totals = read_steps(box)
    assert [time_by_part(record.measures) for record in records] == steps
    assert [ms(record.duration) for record in records] == [sum(parts.values()) for parts in steps]
    assert all(map(parts_sum_to_duration, records))
    assert (totals.steps, ms(totals.step_seconds)) == (len(steps), sum(map(ms, (r.duration for r in records))))
    assert not box.timeline.step_pending


def test_step_starts_when_the_step_before_has_ended(box):
    act(box, "step 7 step")
    first, second = read_steps(box).records
    assert second.start == pytest.approx(first.start + first.duration, abs=1e-8)


def test_collective_inside_a_collective_is_not_counted(box):
    box.timeline.begin_step(None)
    assert box.timeline.enter_op(ALL_TO_ALL, 0, 10, 20)
    box.clock.sleep(0.001)
    assert not box.timeline.enter_op(ALL_REDUCE, 0, 1000, 1000)
    assert not box.timeline.wait_op(ALL_REDUCE, 0, 1000)
    assert not box.timeline.enter_op_elsewhere(ALL_REDUCE, 0, 1000, 1000)
    box.timeline.count_op(ALL_REDUCE, 0, 1000, 1000)
    act(box, "2 leave end")
    (record,), _ = read_steps(box)
    assert list(record.measures.ops) == ["all_to_all"]
    op = record.measures.ops["all_to_all"]
    assert (op.count, op.sent_bytes, op.received_bytes, ms(op.exposed_seconds)) == (1, 10, 20, 3)


def test_asynchronous_collective_is_exposed_during_the_wait_only(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 10, 20)
    issued = box.timeline.issue()
    box.timeline.leave_op(in_flight=True)
    act(box, "backward 10")
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
    act(box, "1 end")
    (record,), _ = read_steps(box)
    op = record.measures.ops["all_reduce"]
    assert (op.count, op.sent_bytes, op.received_bytes, op.exposed_seconds, op.inflight_seconds) == (1, 10, 20, 0, 0)
    assert time_by_part(record.measures) == {"other": 1}


def test_change_of_activity_returns_the_activity_before(box):
    act(box, "step")
    assert box.timeline.turn_to(EVAL) == TRAIN


def test_collective_outside_steps_is_counted_in_the_totals_only(box):
    act(box, "broadcast 500 leave step")
    (record,), totals = read_steps(box)
    assert "broadcast" not in record.measures.ops
    broadcast = totals.measures.ops["broadcast"]
    assert (broadcast.count, broadcast.sent_bytes, broadcast.exposed_seconds) == (1, 80, 0.0)  # only steps have time
    assert ms(totals.step_seconds) == 20


def test_lease_is_renewed_at_the_end_of_a_step_and_not_at_its_beginning(box):
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
    act(box, "step 1000 eval 3000")
    assert current_state(box).activity == "eval"
    assert ms((box.clock.ns - current_state(box).activity_since) * 1e-9) == 3000


def test_sequence_counts_per_group(box):
    first, second = box.timeline.group("0", 4), box.timeline.group("tables", 2)
    for group in (first, second, first):
        box.timeline.enter_op(ALL_REDUCE, group, 8, 8)
        box.timeline.leave_op()
    box.timeline.count_op(ALL_REDUCE, second, 8, 8, 3)
    assert (read_sequences(box)[first], read_sequences(box)[second]) == (2, 4)


def test_wait_has_the_next_sequence_without_counting_it(box):
    """The collective is counted elsewhere, once it has ended."""
    group = box.timeline.group("0", 4)
    box.timeline.wait_op(ALL_REDUCE, group, 8)
    assert (current_state(box).op, current_state(box).num_bytes, current_state(box).sequence) == ("all_reduce", 8, 1)
    assert read_sequences(box)[group] == 0


def test_send_does_not_advance_the_sequence(box):
    """Only two members of a group take part in a send, so the sequences of the others would differ."""
    group = box.timeline.group("0", 4)
    box.timeline.enter_op(OP_NUMBER["send"], group, 8, 0)
    box.timeline.leave_op()
    assert read_sequences(box)[group] == 0


def test_groups_that_are_made_anew_count_from_0(box):
    """A rank that recovers without a new process joins a new group, in which no collective has run yet."""
    for name in range(9):
        box.timeline.enter_op(ALL_REDUCE, box.timeline.group(str(name), 2), 8, 8)
        box.timeline.leave_op()
    box.timeline.leave_groups()
    assert read_part(box, "groups") == {}
    assert read_part(box, "entered") == []
    group = box.timeline.group("0", 2)
    assert read_sequences(box)[group] == 0
    box.timeline.enter_op(ALL_REDUCE, group, 8, 8)
    assert (current_state(box).sequence, read_sequences(box)[group]) == (1, 1)
    box.timeline.leave_op()
    assert read_part(box, "entered") == [(ALL_REDUCE, group, 1, 16)]


def test_groups_are_not_forgotten_inside_a_collective(box):
    """Another thread joins new groups while the rank's own thread still hangs in a collective of an old group."""
    group = box.timeline.group("0", 2)
    box.timeline.enter_op(ALL_REDUCE, group, 8, 8)
    box.timeline.leave_groups()
    assert (current_state(box).group, current_state(box).sequence) == (group, 1)


def test_ninth_group_has_no_number_and_does_not_change_the_others(box):
    numbers = [box.timeline.group(str(name), 2) for name in range(9)]
    assert numbers == [*range(8), layout.NONE]
    assert box.timeline.enter_op(ALL_REDUCE, layout.NONE, 8, 8)
    assert (current_state(box).group, current_state(box).op) == (None, "all_reduce")
    box.timeline.leave_op()
    assert set(read_sequences(box).values()) == {0}


@pytest.mark.parametrize("number", ["seven", 1.5, 2**70, float("nan"), float("inf"), -1, object()])
def test_invalid_step_number_loses_no_later_step(box, number):
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # zmon.step() reports it once and continues
        box.timeline.begin_step(number)
    box.timeline.end_step()
    box.timeline.begin_step(7)
    box.timeline.end_step()
    box.steps(2)
    assert [record.step for record in read_steps(box).records][-3:] == [7, 8, 9]


def test_times_of_activities_and_steps_sum_to_the_age_of_the_rank(box):
    begin = box.clock.ns
    act(box, "3000 step 480 step 250 eval 7000 checkpoint 2000 train step eval")
    act(box, "1000 done")
    totals = read_steps(box).totals
    assert totals.between_seconds == pytest.approx({"init": 3, "train": 0.25, "eval": 8, "checkpoint": 2}, abs=1e-6)
    assert totals.step_seconds == pytest.approx(0.54, abs=1e-6)
    age = (box.clock.ns - begin) * 1e-9
    assert totals.step_seconds + sum(totals.between_seconds.values()) == pytest.approx(age, abs=1e-6)


def test_current_activity_is_not_yet_included(box):
    act(box, "step eval 7000")
    assert "eval" not in read_steps(box).totals.between_seconds
