"""Tests of recent steps and of a sample of them. Sampled steps are multiples of a power of two, so ranks share some."""

import contextlib

import pytest

from tests.boxes import all_ends, records_between
from tests.steps import only_records
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.recent import spread
from zmon.box.steps import aligned_steps
from zmon.box.versions import CURRENT
from zmon.schema.names import ACTIVITIES, OPS

SECOND = 1_000_000_000
TRAIN, EVAL = ACTIVITIES.index("train"), ACTIVITIES.index("eval")


def step_numbers(ends):
    return [each.end[layout.STEP_NUMBER] for each in ends]


def sampled_records(ends):
    """Return the records of a sample, which have what the hub compares."""
    return only_records(aligned_steps({"": ends}))


# -- all steps ---------------------------------------------------------------------------------------------


def test_last_steps_of_an_interval_are_returned_in_order(box, reader):
    box.steps(10, seconds=1.0)
    ends = [round((record.start + record.duration) * SECOND) for record in records_between(all_ends(reader))]

    def steps(after, until, most=100):
        return step_numbers(reader.steps_ended(after, until, most))

    half = 500_000_000
    assert steps(ends[2] - half, ends[5] + half) == [3, 4, 5, 6]
    assert steps(ends[2] - half, ends[5] + half, most=2) == [5, 6]
    assert steps(ends[9] + half, ends[9] + 2 * half) == []
    assert steps(0, ends[9] + half) == list(range(1, 11))
    assert steps(0, ends[0] - half) == []


# -- a sample ----------------------------------------------------------------------------------------------


def sample_steps(box, seconds, about):
    with contextlib.closing(BoxReader(box.path)) as reader:
        return step_numbers(reader.steps_spread(box.clock.ns - round(seconds * SECOND), box.clock.ns, about))


def test_few_steps_are_all_returned(box):
    assert sample_steps(box, 10.0, about=8) == []
    box.steps(20, seconds=0.25)
    assert sample_steps(box, 0.9, about=8) == [17, 18, 19, 20]


def test_sampled_step_numbers_are_multiples_of_a_power_of_two_so_ranks_have_steps_in_common(box):
    box.steps(500, seconds=0.02)
    often, seldom = sample_steps(box, 1.0, about=8), sample_steps(box, 1.0, about=4)
    assert often == [456, 464, 472, 480, 488, 496]
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


def test_sampled_step_has_the_boundaries_of_that_step(box, reader):
    box.steps(100, seconds=0.02)
    whole = {each.end[layout.STEP_NUMBER]: each for each in reader.steps_ended(0, box.clock.ns, 1000)}
    sample = reader.steps_spread(0, box.clock.ns, 4)
    assert step_numbers(sample) == [32, 64, 96]
    for each in sample:
        assert each._replace(mean_from=None) == whole[each.end[layout.STEP_NUMBER]]


def sample_means(box, about):
    with contextlib.closing(BoxReader(box.path)) as reader:
        ends = reader.steps_spread(0, box.clock.ns, about)
    return {record.step: record.mean for record in sampled_records(ends)}


def test_sampled_record_has_the_mean_since_the_previous_sample(box):
    box.steps(6)
    assert list(sample_means(box, about=8).values()) == [None] * 6  # all steps are returned
    for seconds in (0.010, 0.030) * 29:
        box.steps(1, seconds)
    mean_by_step = sample_means(box, about=8)
    assert list(mean_by_step) == [16, 32, 48, 64]
    for step in (32, 48, 64):
        mean = mean_by_step[step]
        assert (mean.self_seconds, mean.ops["all_to_all"].exposed_seconds) == pytest.approx((0.010, 0.010))
        assert (mean.ops["all_to_all"].sent_bytes, mean.samples) == (100, None)


def test_sampled_record_has_what_the_rank_has_sent_so_far(box, reader):
    """Samples at two distances leave steps between their means, but none out of the total."""
    box.timeline.turn_to(TRAIN)
    for _ in range(64):
        box.timeline.count_op(OPS.index("all_reduce"), 0, 40, 40)
        box.timeline.count_op(OPS.index("all_to_all"), 0, 7, 7)  # its size may differ from rank to rank
        box.clock.sleep(0.02)
        box.timeline.end_step()
    sample = sampled_records(reader.steps_spread(0, box.clock.ns, 8))
    totals = {record.step: record.total_sent_bytes for record in sample}
    assert totals == {step: 40 * step for step in range(16, 65, 16)}


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


def test_mean_is_unknown_where_the_count_of_steps_stands_still(box, reader):
    """The job can write its box: the numbers of its steps may rise while their count does not."""
    box.steps(64, seconds=0.020)
    still = [reader._boundary(number) for number in range(65)]
    still = [row and (*row[: layout.STEPS], 5, *row[layout.STEPS + 1 :]) for row in still]
    sample = spread(still.__getitem__, 64, 0, box.clock.ns, about=8)
    assert 4 <= len(sample) < 64
    assert {record.mean for record in sampled_records(sample)} == {None}


def test_number_of_records_is_bounded_when_steps_become_much_shorter(box):
    box.steps(100, seconds=1.0)
    box.steps(1000, seconds=0.001)
    assert 0 < len(sample_steps(box, 60.0, about=4)) <= 8


def test_steps_at_a_damaged_boundary_are_left_out(box):
    box.steps(16, seconds=0.25)
    before = sample_steps(box, 4.0, about=16)
    box.overwrite(CURRENT.ring + 10 % layout.RING_CAPACITY * CURRENT.boundary_size, b"\0" * 8)
    after = sample_steps(box, 4.0, about=16)
    assert set(after) < set(before)
    assert len(before) - len(after) == 2  # the step that ends at this boundary, and the step that begins there
