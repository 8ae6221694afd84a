"""Tests of the sample of recent steps. Sampled steps are multiples of a power of two, so ranks have steps in common."""

from dataclasses import replace

import pytest

from tests.boxes import Box
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.recent import spread
from zmon.box.versions import CURRENT
from zmon.schema.names import ACTIVITIES, OPS

SECOND = 1_000_000_000
TRAIN, EVAL = ACTIVITIES.index("train"), ACTIVITIES.index("eval")


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def sample_steps(box, seconds, about, until=None):
    reader = BoxReader(box.path)
    until = box.clock.ns if until is None else until
    records = reader.records_spread(until - round(seconds * SECOND), until, about)
    reader.close()
    return [record.step for record in records]


def test_few_steps_are_all_returned(box):
    box.steps(20, seconds=0.25)
    assert sample_steps(box, 0.9, about=8) == [17, 18, 19, 20]


def test_sampled_step_numbers_are_multiples_of_a_power_of_two(box):
    box.steps(500, seconds=0.02)
    assert sample_steps(box, 1.0, about=8) == [456, 464, 472, 480, 488, 496]


def test_ranks_with_different_powers_have_steps_in_common(box):
    box.steps(500, seconds=0.02)
    often, seldom = sample_steps(box, 1.0, about=8), sample_steps(box, 1.0, about=4)
    assert 1 < len(seldom) < len(often)
    assert set(seldom) <= set(often)


def test_evaluations_do_not_change_the_sampled_step_numbers(box):
    """An evaluation after every ten steps adds boundaries that end no step."""
    for _ in range(40):
        box.steps(10, seconds=0.02)
        for activity in (EVAL, TRAIN):
            box.timeline.turn_to(activity)
            box.clock.sleep(0.001)
    steps = sample_steps(box, 2.0, about=8)
    assert len(steps) >= 5
    assert all(step % 16 == 0 for step in steps)


def test_sampled_record_is_the_record_of_that_step(box):
    box.steps(100, seconds=0.02)
    reader = BoxReader(box.path)
    whole = {record.step: record for record in reader.records_ended(0, box.clock.ns, 1000)}
    for record in reader.records_spread(0, box.clock.ns, 4):
        assert replace(record, mean=None) == whole[record.step]
    reader.close()


def sample_means(box, about):
    reader = BoxReader(box.path)
    records = reader.records_spread(0, box.clock.ns, about)
    reader.close()
    return {record.step: record.mean for record in records}


def test_sampled_record_has_the_mean_since_the_previous_sample(box):
    for _ in range(32):
        box.steps(1, seconds=0.010)
        box.steps(1, seconds=0.030)
    mean_by_step = sample_means(box, about=8)
    assert list(mean_by_step) == [16, 32, 48, 64]
    assert all(mean.self_seconds == pytest.approx(0.010) for mean in list(mean_by_step.values())[1:])
    assert all(
        mean.ops["all_to_all"].exposed_seconds == pytest.approx(0.010) for mean in list(mean_by_step.values())[1:]
    )
    assert mean_by_step[32].ops["all_to_all"].sent_bytes == 100
    assert mean_by_step[32].samples is None


def test_sampled_record_has_what_the_rank_has_sent_so_far(box):
    """Samples at two distances leave steps between their means, but none out of the total."""
    box.timeline.turn_to(TRAIN)
    for _ in range(64):
        box.timeline.count_op(OPS.index("all_reduce"), 0, 40, 40)
        box.timeline.count_op(OPS.index("all_to_all"), 0, 7, 7)  # its size may differ from rank to rank
        box.clock.sleep(0.02)
        box.timeline.end_step()
    reader = BoxReader(box.path)
    totals = {record.step: record.total_sent_bytes for record in reader.records_spread(0, box.clock.ns, 8)}
    reader.close()
    assert totals == {step: 40 * step for step in range(16, 65, 16)}


def test_records_have_no_mean_if_all_steps_are_returned(box):
    box.steps(6)
    assert list(sample_means(box, about=8).values()) == [None] * 6


def test_mean_across_an_evaluation_is_unknown(box):
    """The mean would include the time between the steps."""
    box.steps(40, seconds=0.02)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(1.0)
    box.timeline.turn_to(TRAIN)
    box.steps(40, seconds=0.02)
    mean_by_step = sample_means(box, about=8)
    assert mean_by_step[48] is None
    assert mean_by_step[64].self_seconds == pytest.approx(0.010)


def test_mean_is_unknown_where_the_count_of_steps_stands_still(box):
    """The job can write its box: the numbers of its steps may rise while their count does not."""
    box.steps(64, seconds=0.020)
    reader = BoxReader(box.path)
    read = [reader._boundary(number) for number in range(65)]
    reader.close()
    still = [boundary and boundary._replace(steps=5) for boundary in read]
    records = spread(still.__getitem__, 64, 0, box.clock.ns, about=8)
    assert 4 <= len(records) < 64
    assert {record.mean for record in records} == {None}


def test_number_of_records_is_bounded_when_steps_become_much_shorter(box):
    box.steps(100, seconds=1.0)
    box.steps(1000, seconds=0.001)
    assert 0 < len(sample_steps(box, 60.0, about=4)) <= 8


def test_box_without_steps_has_no_records(box):
    assert sample_steps(box, 10.0, about=8) == []


def test_steps_at_a_damaged_boundary_are_left_out(box):
    box.steps(16, seconds=0.25)
    before = sample_steps(box, 4.0, about=16)
    box.overwrite(CURRENT.ring + 10 % layout.RING_CAPACITY * CURRENT.boundary_size, b"\0" * 8)
    after = sample_steps(box, 4.0, about=16)
    assert set(after) < set(before)
    assert len(before) - len(after) == 2  # the step that ends at this boundary, and the step that begins there
