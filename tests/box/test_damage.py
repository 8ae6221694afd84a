"""Tests of a reader of a box with damaged live words or cells (test_ring.py has damaged boundaries).

After the writer was stopped at any store, or after parts of the file were damaged, a reader returns values that the
rank wrote, reports the part as corrupt, or leaves it out.
"""

import struct
import time
from dataclasses import replace

import pytest

from tests.boxes import Box, all_ends, read, read_part
from tests.build import JOB
from zmon.box import layout
from zmon.box.versions import CURRENT
from zmon.errors import BoxCorrupt
from zmon.probe.edge import PYTHON
from zmon.probe.rank import EVAL, OP_NUMBER, PHASE_NUMBER
from zmon.schema.names import LOSS_SOURCES

CELLS = ("identity", "place", "report", "losses", "words", "groups")
METHODS = {"place": "now", "losses": "not_finite_since"}  # of a reader, for the cells that are read by another name


class WriterStopped(BaseException):
    """Raised to stop the writer."""


class StoppingLive:
    """The live words of a writer that is stopped after a number of stores."""

    def __init__(self, live, stores):
        self.live, self.left = live, stores

    def __getitem__(self, index):
        return self.live[index]

    def __setitem__(self, index, value):
        if not self.left:
            raise WriterStopped
        self.left -= 1
        self.live[index] = value


def run_phases_and_collectives(box, nanoseconds):
    """Run phases and collectives with this number of nanoseconds before each, and yield after each."""
    line = box.timeline
    actions = (
        lambda: line.phase(PHASE_NUMBER["data"]),
        lambda: line.phase(PHASE_NUMBER["embedding"]),
        lambda: line.enter_op(OP_NUMBER["all_to_all"], line.group("0", 2), 1000, 24),
        lambda: line.leave_op(),
        lambda: line.enter_op(OP_NUMBER["send"], line.group("1", 2), 7, 0),
        lambda: line.leave_op(),
        lambda: line.phase(PHASE_NUMBER["backward"]),
    )
    for action in actions:
        box.clock.ns += nanoseconds
        action()
        yield


NUM_STORES = 20  # `run_phases_and_collectives` stores at least as many live words


@pytest.mark.parametrize("nanoseconds", [1, 100, 1023, 1024, 9000, 1_000_000])
def test_writer_stopped_after_any_store_leaves_a_written_state(tmp_path, nanoseconds):
    """If the times of both states are close, a torn state resembles a valid state of another activity.

    The C edge stores in the same order (tests/probe/edge).
    """
    undisturbed = Box(tmp_path)
    written = {read_part(undisturbed, "now")} | {
        read_part(undisturbed, "now") for _ in run_phases_and_collectives(undisturbed, nanoseconds)
    }
    for stores in range(NUM_STORES):
        box = Box(tmp_path, edge=PYTHON)
        live = box.timeline._live = StoppingLive(box.writer.live, stores)
        with pytest.raises(WriterStopped):
            list(run_phases_and_collectives(box, nanoseconds))
        assert live.left == 0
        assert read_part(box, "now") in written


def test_reader_returns_previous_state_if_the_newest_is_torn(box):
    box.timeline.phase(PHASE_NUMBER["data"])
    before = read_part(box, "now")
    box.clock.sleep(0.001)
    box.timeline.phase(PHASE_NUMBER["forward"])
    newest = max(layout.STATE_SLOTS, key=lambda slot: box.writer.live[slot])
    box.writer.live[newest + 1] -= 5
    assert read_part(box, "now") == before


def test_box_with_two_damaged_states_still_returns_other_parts(box, reader):
    box.steps(2)
    for slot in layout.STATE_SLOTS:
        box.flip(CURRENT.live + 8 * slot)
    with pytest.raises(BoxCorrupt, match="state"):
        reader.now()
    assert reader.identity().job_id == JOB
    assert len(all_ends(reader)) == 2


def test_collective_with_damaged_numbers_is_not_returned(box):
    box.timeline.begin_step(None)
    box.timeline.enter_op(OP_NUMBER["all_to_all"], box.timeline.group("0", 2), 1000, 0)
    for number in (layout.ENTERED, layout.SEQUENCE):
        box.flip(CURRENT.live + 8 * number)
        with pytest.raises(BoxCorrupt):
            read_part(box, "now")
        box.flip(CURRENT.live + 8 * number)
    assert read_part(box, "now").num_bytes == 1000


def test_numbers_are_written_before_the_state_that_refers_to_them(tmp_path):
    box = Box(tmp_path, edge=PYTHON)
    order = []  # indices of the live words, as they were written

    class Recording(StoppingLive):
        def __setitem__(self, index, value):
            order.append(index)
            self.live[index] = value

    box.timeline._live = Recording(box.writer.live, 0)
    box.timeline.enter_op(OP_NUMBER["all_to_all"], box.timeline.group("0", 2), 1000, 0)
    numbers = (layout.ENTERED, layout.BEFORE, layout.SEQUENCE)
    assert sorted(order[:6]) == sorted(index + half for index in numbers for half in (0, 1))
    assert order[6:] in ([slot, slot + 1] for slot in layout.STATE_SLOTS)


def test_new_activity_does_not_have_the_age_of_the_previous_activity(box, reader, monkeypatch):
    """A rank that changes to evaluation during a read must not seem to have evaluated for an hour."""
    box.steps(1)
    box.clock.sleep(3600)
    trains = read_part(box, "now")
    read_place = reader._place

    def turns_meanwhile():
        place = read_place()
        box.timeline.turn_to(EVAL)
        return place

    monkeypatch.setattr(reader, "_place", turns_meanwhile)
    assert reader.now() == trains
    monkeypatch.undo()
    assert (reader.now().activity, reader.now().activity_since) == ("eval", reader.now().since)


def test_half_written_sequence_is_left_out(box):
    box.steps(2)
    box.flip(CURRENT.live + 8 * layout.SEQUENCE + 2)
    sequences = read_part(box, "sequences")
    assert 0 not in sequences
    assert sequences[1] == 0


def rewrite_cells(box, number):
    """Write every cell once more, with values of this number."""
    box.clock.sleep(1)
    box.ledger.report({"loss": float(number)}, 1)
    box.timeline.group(f"group-{number}", 2)
    box.writer.last_words(time.time_ns(), "exception", "builtins.ValueError", f"bad batch {number}")
    box.writer.place(box.ledger.boundaries, number, number, number)
    box.writer.losses(*[number] * len(LOSS_SOURCES))
    box.writer.identity(replace(box.who, device=f"cuda:{number}"))


def read_cell(box, name):
    """Return what a reader returns from the cell with this name."""
    return read_part(box, METHODS.get(name, name))


@pytest.mark.parametrize("name", CELLS)
def test_cell_returns_previous_values_if_the_newest_slot_is_damaged(box, name):
    """The writer alternates between the slots; the test damages the newest slot each time."""
    cell = getattr(CURRENT, name)
    answers = []
    slots = []
    for number in range(1, 5):
        rewrite_cells(box, number)
        answers.append(read_cell(box, name))
        slots.append(box.newest_slot(cell))
        if number > 1:
            whole = box.path.read_bytes()[slots[-1] :][: cell.slot_size]
            box.overwrite(slots[-1] + 8, b"\xaa" * 7)
            assert read_cell(box, name) == answers[-2] != answers[-1]
            box.overwrite(slots[-1], whole)
    assert slots[0] == slots[2] != slots[1] == slots[3]


@pytest.mark.parametrize("name", CELLS)
def test_cell_with_two_damaged_slots_is_corrupt(box, name):
    cell = getattr(CURRENT, name)
    rewrite_cells(box, 1)
    for offset in (cell.offset, cell.offset + cell.slot_size):
        box.flip(offset + 9)
    with pytest.raises(BoxCorrupt, match="checksum"):
        read_cell(box, name)
    for other in set(CELLS) - {name}:
        read_cell(box, other)


def test_values_that_do_not_fit_raise_and_change_nothing(box):
    box.steps(3)
    before = read(box)
    with pytest.raises(struct.error):
        box.writer.place(box.ledger.boundaries, 1 << 70, 0, 0)
    with pytest.raises(ValueError, match="format"):
        box.ledger.counts[3] = 1 << 70
    assert read(box) == before
    box.steps(1)
    assert read(box)["totals"].steps == 4
