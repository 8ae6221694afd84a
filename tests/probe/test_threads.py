"""Tests of a rank with several threads: only the thread that trains changes the timeline, until another takes over."""

from threading import Barrier, Thread

import pytest

from tests.probe.reading import current_state, parts_sum_to_duration, read_steps, time_by_part
from zmon.probe.rank import _MAX_QUEUED_OPS, EVAL, OP_NUMBER, PHASE_NUMBER

ALL_REDUCE, ALL_TO_ALL = OP_NUMBER["all_reduce"], OP_NUMBER["all_to_all"]
FORWARD, BACKWARD = PHASE_NUMBER["forward"], PHASE_NUMBER["backward"]


def start_threads(number, work):
    """Start threads that begin their work at the same moment."""
    barrier = Barrier(number)

    def run():
        barrier.wait(10)
        work()

    threads = [Thread(target=run) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def run_threads(number, work):
    """Run threads that begin their work at the same moment, until all have ended."""
    for thread in start_threads(number, work):
        thread.join(30)


def test_other_threads_do_not_change_the_timeline_of_the_rank(box):
    box.timeline.begin_step(None)
    box.timeline.phase(FORWARD)
    answers = []

    def call_timeline():
        timeline = box.timeline
        answers.append(timeline.enter_op(ALL_REDUCE, 0, 8, 8))
        answers.append(timeline.wait_op(ALL_REDUCE, 0, 8))
        timeline.leave_op()
        timeline.phase(BACKWARD)
        timeline.begin_step(77)
        timeline.end_step()
        timeline.turn_to(EVAL)

    run_threads(1, call_timeline)
    box.clock.sleep(0.001)
    state = current_state(box)
    assert (state.phase, state.op, state.activity, state.step) == ("forward", None, "train", 1)
    box.timeline.end_step()
    assert answers == [False, False]
    (record,), _ = read_steps(box)
    assert time_by_part(record.measures) == {"forward": 1}


def test_collectives_of_eight_threads_are_counted_exactly(box):
    def collectives():
        for _ in range(1000):
            if box.timeline.enter_op_elsewhere(ALL_REDUCE, 0, 3, 5):
                assert not box.timeline.enter_op_elsewhere(ALL_TO_ALL, 0, 1, 1)  # a collective inside the collective
                box.timeline.leave_op()

    box.timeline.begin_step(None)
    threads = start_threads(8, collectives)
    while any(thread.is_alive() for thread in threads):
        box.steps(1)
    box.steps(1)
    records, totals = read_steps(box)
    op = totals.measures.ops["all_reduce"]
    lost = box.ledger.dropped  # calls that found the queue full
    assert (op.count + lost, op.sent_bytes + 3 * lost, op.received_bytes + 5 * lost) == (8000, 24000, 40000)
    assert all(map(parts_sum_to_duration, records))


def test_collectives_beyond_the_queue_are_dropped_and_counted(box):
    run_threads(8, lambda: [box.timeline.count_op(ALL_REDUCE, 0, 1, 1) for _ in range(1000)])
    box.steps(2)
    totals = read_steps(box).totals
    count = totals.measures.ops["all_reduce"].count
    assert _MAX_QUEUED_OPS <= count <= _MAX_QUEUED_OPS + 8  # each thread may pass the check once more
    assert totals.dropped_records == 8000 - count


def test_thread_that_trained_before_takes_the_rank_back_between_steps_only(box):
    box.timeline.begin_step(None)
    run_threads(1, box.timeline.adopt_thread)
    assert box.timeline.acts_for_rank()  # between two steps
    run_threads(1, box.timeline.adopt_thread)
    box.timeline.since += 1  # the other thread has marked something in this step
    assert not box.timeline.acts_for_rank()


@pytest.mark.parametrize(
    "be_busy",
    [lambda line: line.enter_op(ALL_REDUCE, 0, 8, 8), lambda line: setattr(line, "autograd_depth", 1)],
    ids=["in a collective", "in a backward pass"],
)
def test_busy_thread_keeps_the_rank(box, be_busy):
    box.timeline.begin_step(None)
    be_busy(box.timeline)
    run_threads(1, box.timeline.adopt_thread)
    box.timeline.autograd_depth = 0
    assert box.timeline.acts_for_rank()


def test_steps_of_threads_that_take_turns_are_whole(box):
    """No real job has threads that take the rank over during each other's steps, but even then steps are whole."""

    def train():
        for _ in range(500):
            if box.timeline.adopt_thread():
                box.timeline.phase(FORWARD)
                if box.timeline.enter_op(ALL_REDUCE, 0, 3, 5):
                    box.timeline.leave_op()
                box.timeline.end_step()

    box.timeline.begin_step(None)
    run_threads(4, train)
    assert box.timeline.adopt_thread()
    before = box.timeline.step
    box.steps(2)
    records, totals = read_steps(box)
    assert box.timeline.step == before + 2
    assert (totals.steps, records[-1].step) == (before + 1, before + 1)
