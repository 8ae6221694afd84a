"""Tests of step durations read from boundaries. They equal the durations of the step records."""

import pytest

from tests.boxes import Box
from zmon.box import layout
from zmon.box.durations import durations
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
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


def read_durations(box, max_boundaries=512):
    """Return the durations, from calls with at most `max_boundaries` boundaries each, and those of the records."""
    reader = BoxReader(box.path)
    steps, mark, after = [], None, 0
    while (answer := reader.boundaries_after(after, max_boundaries))[1]:
        first, raw = answer
        seconds, mark = durations(raw, first, reader.seed, mark, reader.layout)
        steps += seconds
        after = first + len(raw) // CURRENT.boundary_size - 1
    records = [record.duration for _, record in reader.records(0)]
    reader.close()
    return steps, records


@pytest.mark.parametrize("max_boundaries", [1, 3, 512])
def test_durations_equal_those_of_the_records(box, max_boundaries):
    steps, records = read_durations(box, max_boundaries)
    assert steps == pytest.approx(records)
    assert len(steps) == 10


def test_torn_boundary_loses_only_the_steps_on_both_sides(box):
    box.flip(CURRENT.ring + 5 * CURRENT.boundary_size + 40)
    steps, records = read_durations(box)
    assert steps == pytest.approx(records)
    assert len(steps) == 8


def test_durations_of_an_overwritten_ring_are_those_of_the_last_steps(tmp_path):
    box = Box(tmp_path)
    box.steps(layout.RING_CAPACITY + 10)
    steps, records = read_durations(box)
    assert steps == pytest.approx(records[-len(steps) :])
    assert len(steps) > layout.RING_CAPACITY - 5
