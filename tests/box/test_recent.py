"""Some steps instead of all: the same ones on every rank, however many lie between two questions."""

from dataclasses import replace

import pytest

from tests.boxes import Box
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.schema.names import ACTIVITIES

SECOND = 1_000_000_000
TRAIN, EVAL = ACTIVITIES.index("train"), ACTIVITIES.index("eval")


@pytest.fixture
def box(tmp_path):
    return Box(tmp_path)


def spread(box, seconds, about, until=None):
    reader = BoxReader(box.path)
    until = box.clock.ns if until is None else until
    found = reader.records_spread(until - round(seconds * SECOND), until, about)
    reader.close()
    return [record.step for record in found]


def test_every_step_is_given_where_there_are_few(box):
    box.steps(20, seconds=0.25)
    assert spread(box, 0.9, about=8) == [17, 18, 19, 20]


def test_of_many_steps_those_are_given_whose_number_divides_by_a_power_of_two(box):
    box.steps(500, seconds=0.02)
    assert spread(box, 1.0, about=8) == [456, 464, 472, 480, 488, 496]


def test_ranks_that_choose_another_power_have_steps_in_common(box):
    box.steps(500, seconds=0.02)
    often, seldom = spread(box, 1.0, about=8), spread(box, 1.0, about=4)
    assert 1 < len(seldom) < len(often)
    assert set(seldom) <= set(often)


def test_boundaries_between_steps_shift_nothing(box):
    """An evaluation every ten steps has boundaries of its own."""
    for _ in range(40):
        box.steps(10, seconds=0.02)
        for activity in (EVAL, TRAIN):
            box.timeline.turn_to(activity)
            box.clock.sleep(0.001)
    found = spread(box, 2.0, about=8)
    assert len(found) >= 5
    assert all(step % 16 == 0 for step in found)


def test_record_spread_is_the_record_of_that_step(box):
    box.steps(100, seconds=0.02)
    reader = BoxReader(box.path)
    whole = {record.step: record for record in reader.records_ended(0, box.clock.ns, 1000)}
    for record in reader.records_spread(0, box.clock.ns, 4):
        assert replace(record, mean=None) == whole[record.step]
    reader.close()


def means(box, about):
    reader = BoxReader(box.path)
    found = reader.records_spread(0, box.clock.ns, about)
    reader.close()
    return {record.step: record.mean for record in found}


def test_each_of_some_steps_says_what_those_since_the_last_took_on_average(box):
    for _ in range(32):
        box.steps(1, seconds=0.010)
        box.steps(1, seconds=0.030)
    told = means(box, about=8)
    assert list(told) == [16, 32, 48, 64]
    assert all(mean.self_seconds == pytest.approx(0.010) for mean in list(told.values())[1:])
    assert all(mean.ops["all_to_all"].exposed_seconds == pytest.approx(0.010) for mean in list(told.values())[1:])
    assert told[32].ops["all_to_all"].sent_bytes == 100
    assert told[32].samples is None


def test_step_that_stands_for_itself_says_no_mean(box):
    box.steps(6)
    assert list(means(box, about=8).values()) == [None] * 6


def test_mean_over_an_evaluation_is_not_told(box):
    """It would take in what lies between the steps."""
    box.steps(40, seconds=0.02)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(1.0)
    box.timeline.turn_to(TRAIN)
    box.steps(40, seconds=0.02)
    told = means(box, about=8)
    assert told[48] is None
    assert told[64].self_seconds == pytest.approx(0.010)


def test_steps_that_became_much_shorter_do_not_make_the_answer_grow(box):
    box.steps(100, seconds=1.0)
    box.steps(1000, seconds=0.001)
    assert 0 < len(spread(box, 60.0, about=4)) <= 8


def test_nothing_is_given_of_a_box_without_steps(box):
    assert spread(box, 10.0, about=8) == []


def test_damaged_boundary_is_left_out(box):
    box.steps(16, seconds=0.25)
    before = spread(box, 4.0, about=16)
    box.overwrite(layout.RING + 10 % layout.RING_CAPACITY * layout.BOUNDARY_SIZE, b"\0" * 8)
    after = spread(box, 4.0, about=16)
    assert set(after) < set(before)
    assert len(before) - len(after) == 2  # the step that ended there and the one that began
