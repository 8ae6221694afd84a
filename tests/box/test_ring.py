"""Tests of the ring of boundaries. Every boundary that is still there is read, and none that is torn or damaged."""

import struct
from itertools import pairwise

import pytest

from tests.boxes import Box, all_ends, records_between
from zmon.box import layout, ring
from zmon.box.versions import CURRENT
from zmon.errors import BoxCorrupt
from zmon.probe.rank import EVAL
from zmon.schema.measures import NS


def step_ends(reader):
    """Return the numbers of the boundaries that end a step."""
    return [ends.end[layout.NUMBER] for ends in all_ends(reader)]


def numbers_after(reader, after, most=layout.RING_CAPACITY):
    """Return the numbers of the undamaged boundaries above `after`."""
    first, raw = reader.boundaries_after(after, most)
    return [row[layout.NUMBER] for row in ring.boundaries(raw, first, reader.seed, reader.layout)]


def read_in_pieces(reader, size):
    """Return all undamaged boundaries, from readings of at most `size` boundaries each."""
    rows = []
    first, raw = reader.boundaries_after(0, size)
    while raw:
        rows += ring.boundaries(raw, first, reader.seed, reader.layout)
        first, raw = reader.boundaries_after(first + len(raw) // CURRENT.boundary_size - 1, size)
    return rows


def durations(rows):
    """Return the seconds of the steps between boundaries that follow each other."""
    steps = [(a, b) for a, b in pairwise(rows) if b[layout.NUMBER] == a[layout.NUMBER] + 1]
    return [(b[layout.STEP_NS] - a[layout.STEP_NS]) * NS for a, b in steps if b[layout.KIND] == layout.STEP]


@pytest.fixture
def varied(box):
    """Return a box with eight steps of different durations, an evaluation, and two more steps."""
    for n in range(1, 9):
        box.steps(1, seconds=n * 0.01)
    box.timeline.turn_to(EVAL)
    box.clock.sleep(5)
    box.steps(2, seconds=0.2)
    return box


@pytest.mark.parametrize("size", [1, 3, 512])
def test_boundaries_read_in_pieces_are_those_of_the_records(varied, reader, size):
    rows = read_in_pieces(reader, size)
    assert [row[layout.NUMBER] for row in rows] == list(range(1, varied.ledger.boundaries + 1))
    records = [record.duration for record in records_between(all_ends(reader))]
    assert durations(rows) == pytest.approx(records)
    assert len(records) == 10


def test_torn_boundary_loses_only_the_steps_on_both_sides(varied, reader):
    varied.flip(CURRENT.ring + 5 * CURRENT.boundary_size + 40)
    rows = read_in_pieces(reader, 512)
    assert [row[layout.NUMBER] for row in rows] == [n for n in range(1, varied.ledger.boundaries + 1) if n != 5]
    assert durations(rows) == pytest.approx([record.duration for record in records_between(all_ends(reader))])
    assert len(durations(rows)) == 8


def test_boundaries_of_an_overwritten_ring_are_the_last_4095(box, reader):
    """The oldest one of the ring is left out, because the writer may be overwriting it."""
    box.steps(layout.RING_CAPACITY + 10)
    latest = box.ledger.boundaries
    expected = list(range(latest - layout.RING_CAPACITY + 2, latest + 1))
    assert [row[layout.NUMBER] for row in read_in_pieces(reader, 512)] == expected
    assert step_ends(reader) == expected


def test_boundaries_continue_after_the_last_read(box, reader):
    box.steps(5)
    latest = box.ledger.boundaries
    assert numbers_after(reader, latest - 2) == [latest - 1, latest]
    assert numbers_after(reader, 0, most=2) == [1, 2]
    assert numbers_after(reader, latest) == []
    assert numbers_after(reader, latest + 1000) == []
    box.steps(1)
    assert numbers_after(reader, latest) == [latest + 1]


def test_damaged_last_boundary_leaves_the_earlier_steps_and_no_totals(box, reader):
    box.steps(3)
    *earlier, last = step_ends(reader)
    box.flip(CURRENT.ring + last * CURRENT.boundary_size + 8)
    with pytest.raises(BoxCorrupt, match="last boundary"):
        reader.last_boundary()
    assert step_ends(reader) == earlier


def test_boundary_of_another_box_is_not_returned(tmp_path, box, reader):
    """The step between boundaries of two boxes never happened."""
    other = Box(tmp_path / "other")
    box.steps(3)
    other.steps(3, seconds=5.0)
    first, _, last = step_ends(reader)
    offset = CURRENT.ring + first * CURRENT.boundary_size
    box.overwrite(offset, other.path.read_bytes()[offset : offset + CURRENT.boundary_size])
    assert step_ends(reader) == [last]


def test_half_overwritten_boundary_is_not_returned(box, reader):
    box.steps(layout.RING_CAPACITY + 1)
    latest = box.ledger.boundaries
    offset = CURRENT.ring + (latest + 1) % layout.RING_CAPACITY * CURRENT.boundary_size
    box.overwrite(offset, struct.pack("<Q", latest + 1))  # the number is new and the body is old
    assert step_ends(reader) == list(range(latest - layout.RING_CAPACITY + 3, latest + 1))


def test_boundary_with_another_number_is_not_returned(box, reader):
    """The writer has overwritten the boundary with a valid one that is 4,096 numbers newer."""
    box.steps(4)
    steps = step_ends(reader)
    data = box.path.read_bytes()
    offset = CURRENT.ring + steps[3] * CURRENT.boundary_size
    box.overwrite(CURRENT.ring + steps[1] * CURRENT.boundary_size, data[offset : offset + CURRENT.boundary_size])
    assert step_ends(reader) == [steps[0], steps[3]]
