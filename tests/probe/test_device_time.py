"""Tests of times that a fake device measures: they are written in a later step, and no step waits for the device."""

import pytest

from tests.probe.fake_device import Device
from tests.probe.reading import ms, parts_sum_to_duration, read_steps, time_by_part
from zmon.probe.device_time import _MAX_QUEUED
from zmon.probe.rank import DONE, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN

FORWARD, BACKWARD = PHASE_NUMBER["forward"], PHASE_NUMBER["backward"]
ALL_REDUCE = OP_NUMBER["all_reduce"]


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def box(box, device):
    """Return the box of a rank that trains, with the times of the fake device."""
    box.timeline.turn_to(TRAIN)
    box.timeline.device = box.ledger.device = device.device_time()
    return box


def finish(box, device):
    """Let the device do all its work, and end the training, which writes the last steps."""
    device.catch_up()
    box.timeline.turn_to(EVAL)


def run_step(box, device, forward=3, wait=2, backward=5):
    """Run a step whose work the host submits in a microsecond; `forward`, `wait` and `backward` are milliseconds."""
    box.timeline.begin_step(None)
    box.timeline.phase(FORWARD)
    device.launch(forward)
    box.timeline.enter_op(ALL_REDUCE, 0, 10, 20)
    device.launch(wait)
    box.timeline.leave_op()
    box.timeline.phase(BACKWARD)
    device.launch(backward)
    box.clock.ns += 1000
    box.timeline.end_step()


def test_times_of_a_step_are_those_of_the_device_and_written_a_step_later(box, device):
    run_step(box, device)
    assert read_steps(box).totals.steps == 0  # the device has not done the work yet
    device.catch_up()
    run_step(box, device)
    (record,), totals = read_steps(box)
    assert time_by_part(record.measures) == {"forward": 3, "all_reduce": 2, "backward": 5}
    assert parts_sum_to_duration(record)
    assert ms(record.duration) == 10
    assert record.measures.ops["all_reduce"].sent_bytes == 10  # without the bytes of the step in progress
    assert (totals.steps, totals.measures.ops["all_reduce"].count) == (1, 1)


def test_steps_are_written_in_order_and_parts_sum_to_their_duration(box, device):
    for number in range(50):
        run_step(box, device, forward=number, wait=1, backward=2)
        if number % 7 == 0:
            device.catch_up()
    finish(box, device)
    records, totals = read_steps(box)
    assert [record.step for record in records] == list(range(1, 51))
    assert [ms(record.duration) for record in records] == [number + 3 for number in range(50)]
    assert all(map(parts_sum_to_duration, records))
    assert ms(totals.step_seconds) == sum(range(50)) + 150
    assert box.ledger.dropped == 0


def test_steps_of_a_hanging_device_are_written_without_times(box, device):
    for _ in range(200):
        run_step(box, device)
    assert len(box.timeline.device._queue) == _MAX_QUEUED
    records, _ = read_steps(box)
    assert len(records) == 200 - _MAX_QUEUED
    assert all(record.duration == 0 and not record.measures.phases for record in records)  # counts without times
    assert records[-1].measures.ops["all_reduce"].count == 1
    assert box.ledger.dropped == 200 - _MAX_QUEUED
    assert device.num_events < 600  # five events a step; those of a dropped step are used again
    device.catch_up()
    run_step(box, device)
    finish(box, device)
    assert [ms(record.duration) for record in read_steps(box).records][-_MAX_QUEUED - 1 :] == [10] * (_MAX_QUEUED + 1)


@pytest.mark.parametrize("event", range(6))
def test_event_that_fails_costs_the_steps_that_it_measures_and_delays_no_other(box, device, event):
    for number in range(20):
        if number == 4:
            device.num_good_events = event
        run_step(box, device)
        device.catch_up()
        assert len(box.timeline.device._queue) <= 1
    box.timeline.turn_to(EVAL)
    records, _ = read_steps(box)
    without = [record.step for record in records if ms(record.duration) != 10]
    assert without in ([5], [5, 6], [6])  # the event between two steps measures both
    assert (len(records), box.ledger.dropped) == (20, len(without))


def test_event_on_a_stream_that_is_behind_is_waited_for(box, device):
    device.launch(10)
    box.timeline.phase(FORWARD)
    device.queued -= 10
    box.timeline.end_step()
    device.done = 5
    run_step(box, device)
    assert (read_steps(box).records, box.ledger.dropped) == ([], 0)


def test_events_are_reused(box, device):
    for number in range(10_000):
        run_step(box, device)
        issued = box.timeline.issue()
        box.timeline.wait_op(ALL_REDUCE, 0, 1)
        box.timeline.leave_op(issued)
        if number % 100 == 99:
            box.timeline.phase(FORWARD)
            box.timeline.turn_to(EVAL)
        if number % 5 == 4:
            device.catch_up()
    assert device.num_events < 150  # enough for the five steps that are unfinished at most


DURATIONS = {  # what host and device do → milliseconds of each step, 0: it has no times; and number of dropped steps
    # A number is milliseconds of work that the host submits; `done`: the device has done all work.
    "work between steps belongs to the next step": ("step 7 step done", [10, 17], 0),
    "work before and during an evaluation belongs to no step": (
        "step forward 100 eval 1000 train 1 step done", [10, 11], 0
    ),
    "rank that ends leaves unfinished steps without times": ("step done step step leaving", [10, 0, 0], 2),
    "step that is captured in a graph has no times": ("step capture step captured step done", [10, 0, 20], 0),
    "device that fails loses no step": ("step broken" + " step" * 80 + " leaving", [0] * 81, 1),
}  # fmt: skip


@pytest.mark.parametrize(("words", "durations", "dropped"), DURATIONS.values(), ids=DURATIONS)
def test_steps_have_the_times_of_the_device(box, device, words, durations, dropped):
    actions = {
        "step": lambda: run_step(box, device),
        "done": device.catch_up,
        "forward": lambda: box.timeline.phase(FORWARD),
        "eval": lambda: box.timeline.turn_to(EVAL),
        "train": lambda: box.timeline.turn_to(TRAIN),
        "leaving": lambda: box.timeline.turn_to(DONE),
        "capture": lambda: setattr(device, "capturing", True),
        "captured": lambda: setattr(device, "capturing", False),
        "broken": lambda: setattr(device, "broken", True),
    }
    for word in words.split():
        actions[word]() if word in actions else device.launch(int(word))
    box.timeline.turn_to(EVAL)
    records, totals = read_steps(box)
    assert [record.step for record in records] == list(range(1, len(durations) + 1))
    assert [ms(record.duration) for record in records] == durations
    assert all(map(parts_sum_to_duration, records))
    assert (totals.steps, ms(totals.step_seconds)) == (len(durations), sum(durations))
    assert totals.measures.ops["all_reduce"].count == len(durations)
    assert box.ledger.dropped == dropped


def test_asynchronous_collective_is_in_flight_until_the_wait_ends(box, device):
    box.timeline.begin_step(None)
    box.timeline.enter_op(ALL_REDUCE, 0, 10, 20)
    device.launch(2)  # before it is in flight
    issued = box.timeline.issue()
    box.timeline.leave_op(in_flight=True)
    box.timeline.phase(BACKWARD)
    device.launch(6)
    box.timeline.wait_op(ALL_REDUCE, 0, 30)
    device.launch(3)
    box.timeline.leave_op(issued)
    box.timeline.end_step()
    finish(box, device)
    (record,), _ = read_steps(box)
    op = record.measures.ops["all_reduce"]
    assert (ms(op.exposed_seconds), ms(op.inflight_seconds)) == (5, 9)
    assert time_by_part(record.measures) == {"backward": 6, "all_reduce": 5}


def test_nothing_is_recorded_while_a_graph_is_captured(box, device):
    box.timeline.begin_step(None)
    box.timeline.phase(FORWARD)
    device.launch(4)
    device.capturing = True
    num_events = device.num_events
    box.timeline.phase(BACKWARD)
    assert box.timeline.issue() is None
    box.timeline.enter_op(ALL_REDUCE, 0, 1, 1)
    box.timeline.leave_op()
    box.timeline.end_step()
    box.timeline.turn_to(EVAL)
    box.timeline.turn_to(TRAIN)
    assert device.num_events == num_events
    device.capturing = False
    device.catch_up()
    run_step(box, device)
    finish(box, device)
    records, _ = read_steps(box)
    assert len(records) == 2
    assert all(map(parts_sum_to_duration, records))


def test_events_passed_out_of_order_give_no_negative_time(box, device):
    """A device may pass an event on another stream before an event that was recorded earlier."""
    device.launch(10)
    box.timeline.phase(FORWARD)
    device.queued -= 5
    box.timeline.phase(BACKWARD)
    device.queued += 7
    box.timeline.end_step()
    device.done = 100
    box.timeline.turn_to(EVAL)
    (record,), _ = read_steps(box)
    assert min(record.measures.phases.values()) > 0
    assert ms(record.duration) == 12
    assert parts_sum_to_duration(record)
