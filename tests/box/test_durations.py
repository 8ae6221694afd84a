"""Durations out of two words of each boundary are those of the records; a torn boundary costs both its steps."""

import pytest

from tests.boxes import Box
from zmon.box import layout
from zmon.box.durations import durations
from zmon.box.reader import BoxReader
from zmon.probe.rank import EVAL


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    for n in range(1, 9):
        made.steps(1, seconds=n * 0.01)
    made.timeline.turn_to(EVAL)
    made.clock.sleep(5)
    made.steps(2, seconds=0.2)
    return made


def read(box, most=512):
    """By calls for so many boundaries at a time."""
    reader = BoxReader(box.path)
    found, mark, after = [], None, 0
    while (told := reader.boundaries_after(after, most))[1]:
        first, raw = told
        some, mark = durations(raw, first, reader.seed, mark)
        found += some
        after = first + len(raw) // layout.BOUNDARY_SIZE - 1
    records = [record.duration for _, record in reader.records(0)]
    reader.close()
    return found, records


@pytest.mark.parametrize("most", [1, 3, 512])
def test_durations_are_those_of_the_records(box, most):
    found, records = read(box, most)
    assert found == pytest.approx(records)
    assert len(found) == 10


def test_torn_boundary_loses_the_steps_on_both_sides_and_no_other(box):
    box.flip(layout.RING + 5 * layout.BOUNDARY_SIZE + 40)
    found, records = read(box)
    assert found == pytest.approx(records)
    assert len(found) == 8


def test_ring_that_went_round_has_the_last_ones(tmp_path):
    box = Box(tmp_path)
    box.steps(layout.RING_CAPACITY + 10)
    found, records = read(box)
    assert found == pytest.approx(records[-len(found) :])
    assert len(found) > layout.RING_CAPACITY - 5
