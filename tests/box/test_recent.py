"""Tests of recent steps and of a sample of them. One step of each block is drawn, the same one on every rank."""

import contextlib
from itertools import pairwise
from statistics import fmean

import pytest

from tests.boxes import all_ends, records_between
from tests.steps import only_records
from zmon.box import layout, recent
from zmon.box.reader import BoxReader
from zmon.box.recent import sampled_step
from zmon.box.steps import aligned_steps
from zmon.box.versions import CURRENT
from zmon.probe.rank import EVAL, TRAIN
from zmon.schema.names import OPS

SECOND = 1_000_000_000  # nanoseconds


def step_numbers(ends):
    return [step_ends.end[layout.STEP_NUMBER] for step_ends in ends]


def sampled_records(ends):
    """Return the records of a sample, which have what the hub compares."""
    return only_records(aligned_steps({"": ends}))


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


def sample_steps(box, seconds, about):
    """Return the numbers of a sample of about `about` of the steps of the last `seconds`."""
    with contextlib.closing(BoxReader(box.path)) as reader:
        return step_numbers(reader.steps_spread(box.clock.ns - round(seconds * SECOND), box.clock.ns, about))


def drawn(stride, first, last):
    """Return the steps that are drawn from the blocks between these steps."""
    steps = {sampled_step(step, stride) for step in range(first, last + 1)}
    return sorted(step for step in steps if first <= step <= last)


def test_few_steps_are_all_returned(box):
    box.steps(20, seconds=0.25)
    assert sample_steps(box, 0.9, about=8) == [17, 18, 19, 20]


def test_one_step_of_each_block_is_sampled(box):
    box.steps(500, seconds=0.02)
    assert sample_steps(box, 1.0, about=8) == drawn(8, 451, 500)


@pytest.mark.parametrize("stride", [2, 4, 8, 16, 64])
def test_block_has_one_sampled_step_and_a_larger_block_has_one_of_its_halves(stride):
    steps = [sampled_step(block * stride, stride) for block in range(500)]
    assert [step // stride for step in steps] == list(range(500))
    assert all(sampled_step(step, smaller) == step for step in steps for smaller in (1, stride // 2))


@pytest.mark.parametrize("period", range(2, 10))
@pytest.mark.parametrize("stride", [2, 4, 8, 64])
def test_sampled_steps_show_each_beat_of_a_rhythm_about_equally_often(period, stride):
    """With a fixed place in the block, the samples of ranks that are slow in turn could show always the same rank."""
    beats = [sampled_step(block * stride, stride) % period for block in range(200 * period)]
    assert all(140 < beats.count(beat) < 260 for beat in range(period))  # of 200 blocks for each beat


def test_evaluations_do_not_change_the_sampled_step_numbers(box):
    """An evaluation after every ten steps adds boundaries that end no step."""
    for _ in range(40):
        box.steps(10, seconds=0.02)
        for activity in (EVAL, TRAIN):
            box.timeline.turn_to(activity)
            box.clock.sleep(0.001)
    steps = sample_steps(box, 2.0, about=8)
    assert len(steps) >= 5
    assert all(step == sampled_step(step, 16) for step in steps)


def test_sampled_step_has_the_boundaries_of_that_step(box, reader):
    box.steps(100, seconds=0.02)
    whole = {step_ends.end[layout.STEP_NUMBER]: step_ends for step_ends in reader.steps_ended(0, box.clock.ns, 1000)}
    sample = reader.steps_spread(0, box.clock.ns, 4)
    assert step_numbers(sample) == drawn(32, 1, 100)
    for step_ends in sample:
        assert step_ends._replace(mean_from=None) == whole[step_ends.end[layout.STEP_NUMBER]]


def sample_means(reader, until_ns, about):
    """Return the mean of each record of a sample, by its step."""
    return {record.step: record.mean for record in sampled_records(reader.steps_spread(0, until_ns, about))}


def test_sampled_record_has_the_mean_since_the_previous_sample(box, reader):
    for _ in range(32):
        box.steps(1, seconds=0.010)
        box.steps(1, seconds=0.030)
    mean_by_step = sample_means(reader, box.clock.ns, about=8)
    steps = drawn(16, 1, 64)
    assert list(mean_by_step) == steps
    for before, step in pairwise(steps):  # the even steps take 30 ms, the odd ones 10 ms; half of it is self time
        mean = mean_by_step[step]
        seconds = [0.015 if number % 2 == 0 else 0.005 for number in range(before + 1, step + 1)]
        assert mean.self_seconds == pytest.approx(fmean(seconds))
        assert mean.ops["all_to_all"].exposed_seconds == pytest.approx(fmean(seconds))
        assert mean.ops["all_to_all"].sent_bytes == 100
        assert mean.samples is None


def test_sampled_record_has_what_the_rank_has_sent_so_far(box, reader):
    """Some steps are in no mean if the distance between samples changes, but all are in the total."""
    box.timeline.turn_to(TRAIN)
    for _ in range(64):
        box.timeline.count_op(OPS.index("all_reduce"), 0, 40, 40)
        box.timeline.count_op(OPS.index("all_to_all"), 0, 7, 7)  # its size may differ from rank to rank
        box.clock.sleep(0.02)
        box.timeline.end_step()
    sample = sampled_records(reader.steps_spread(0, box.clock.ns, 8))
    totals = {record.step: record.total_sent_bytes for record in sample}
    assert totals == {step: 40 * step for step in drawn(16, 1, 64)}


def test_records_have_no_mean_if_all_steps_are_returned(box, reader):
    box.steps(6)
    assert list(sample_means(reader, box.clock.ns, about=8).values()) == [None] * 6


def test_mean_across_an_evaluation_is_unknown(box, reader):
    """The mean would include the time between the steps."""
    box.steps(40, seconds=0.02)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(1.0)
    box.timeline.turn_to(TRAIN)
    box.steps(40, seconds=0.02)
    mean_by_step = sample_means(reader, box.clock.ns, about=8)
    first, *others = [step for step in mean_by_step if step > 40]
    assert mean_by_step[first] is None
    assert others
    assert all(mean_by_step[step].self_seconds == pytest.approx(0.010) for step in others)


def test_mean_is_unknown_where_the_count_of_steps_stands_still(box, reader):
    """The job can write its box: the numbers of its steps may increase while their count does not."""
    box.steps(64, seconds=0.020)
    still = [reader._boundary(number) for number in range(65)]
    still = [row and (*row[: layout.STEPS], 5, *row[layout.STEPS + 1 :]) for row in still]
    sample = recent.sample(still.__getitem__, 64, 0, box.clock.ns, about=8)
    assert 4 <= len(sample) < 64
    assert {record.mean for record in sampled_records(sample)} == {None}


def test_number_of_records_is_bounded_when_steps_become_much_shorter(box):
    box.steps(100, seconds=1.0)
    box.steps(1000, seconds=0.001)
    assert 0 < len(sample_steps(box, 60.0, about=4)) <= 8


def test_box_without_steps_has_no_records(box):
    assert sample_steps(box, 10.0, about=8) == []


def test_steps_at_a_damaged_boundary_are_left_out(box):
    box.steps(16, seconds=0.25)
    before = sample_steps(box, 4.0, about=16)
    box.overwrite(CURRENT.ring + 10 * CURRENT.boundary_size, b"\0" * 8)
    after = sample_steps(box, 4.0, about=16)
    assert set(after) < set(before)
    assert len(before) - len(after) == 2  # the step that ends at this boundary, and the step that begins there
