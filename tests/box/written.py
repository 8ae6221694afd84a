"""A box with a known history, and the check that a reader returns only values of that history."""

import contextlib
import random
import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.boxes import Box, all_ends
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.versions import CURRENT
from zmon.errors import BoxError
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN
from zmon.schema.names import LOSS_SOURCES

# The methods whose answers are compared as text.
PARTS = ("identity", "last_boundary", "report", "not_finite_since", "words", "groups")
NUM_PARTS = len(PARTS) + 3  # with the state, the sequences and the steps
CELLS = (CURRENT.identity, CURRENT.place, CURRENT.report, CURRENT.losses, CURRENT.words, CURRENT.groups)
WRITTEN_BOUNDARIES = 24  # at least as many as `write_box` writes
HEAD = CURRENT.ring + WRITTEN_BOUNDARIES * CURRENT.boundary_size  # the part of the file with values


@dataclass
class Written:
    """All values that a box has contained at some time. A reader may return only these."""

    states: set = field(default_factory=set)
    places: set = field(default_factory=set)
    numbers: set = field(default_factory=set)
    entered: set = field(default_factory=set)
    parts: dict = field(default_factory=dict)  # the values of each part as text, by name of the part


class WrittenBox(NamedTuple):
    """The bytes of a box, and all values that it has contained."""

    data: bytes
    values: Written


def write_box(root, rank):
    """Write a box, every part at least twice; return its bytes and its values."""
    box = Box(root, identity={"rank": rank})
    chance = random.Random(rank)
    written = Written(parts={part: set() for part in (*PARTS, "steps")})
    add_contents(box.path, written)
    for step in range(12):
        if step in (4, 8):
            box.timeline.turn_to(EVAL if step == 4 else CHECKPOINT)
            add_contents(box.path, written)
            box.timeline.turn_to(TRAIN)
        box.timeline.begin_step(None)
        box.ledger.work(chance.randrange(100), None)
        for phase in ("data", "embedding"):
            box.clock.ns += chance.randrange(10_000)
            box.timeline.phase(PHASE_NUMBER[phase])
            add_contents(box.path, written)
        group = box.timeline.group(f"group-{rank}-{step % 5}", 2)
        box.timeline.enter_op(OP_NUMBER["all_to_all"], group, chance.randrange(1 << 40), step)
        add_contents(box.path, written)
        if step == 11:
            break
        box.clock.ns += chance.randrange(10_000)
        box.timeline.leave_op()
        box.ledger.report({"loss": chance.random(), "step": step}, 1)
        box.writer.losses(*(chance.randrange(100) for _ in LOSS_SOURCES))
        box.writer.identity(replace(box.who, device=f"cuda:{rank}:{step}"))
        if step > 9:
            box.writer.last_words(time.time_ns(), "exception", f"Error{rank}", f"batch {step}")
        add_contents(box.path, written)
        box.timeline.end_step()
        add_contents(box.path, written)
    return WrittenBox(box.path.read_bytes(), written)


def add_contents(path, written):
    """Add all values that a reader returns now."""
    reader = BoxReader(path)
    now = reader.now()
    written.states.add((now.since, now.activity, now.phase, now.op, now.group))
    written.places.add(place_values(now))
    written.numbers |= {0, now.num_bytes, now.sequence, *reader.sequences().values()}
    written.entered |= set(reader.entered())
    for part in PARTS:
        written.parts[part].add(repr(getattr(reader, part)()))
    written.parts["steps"] |= {*map(repr, all_ends(reader))}
    reader.close()


def place_values(now):
    """Return the values of the place cell."""
    return now.activity_since, now.step_since, now.step + (now.activity != "train")


def check_parts(reader, written):
    """Read all parts and check that the values were written; return how many parts could be read."""
    num_read = 0
    with contextlib.suppress(BoxError):
        now = reader.now()
        assert (now.since, now.activity, now.phase, now.op, now.group) in written.states
        assert place_values(now) in written.places
        assert {now.num_bytes, now.sequence} <= written.numbers
        num_read += 1
    with contextlib.suppress(BoxError):
        sequences = reader.sequences()
        assert set(sequences.values()) <= written.numbers
        num_read += len(sequences) == layout.MAX_GROUPS
    with contextlib.suppress(BoxError):
        assert set(reader.entered()) <= written.entered
    for part in PARTS:
        with contextlib.suppress(BoxError):
            assert repr(getattr(reader, part)()) in written.parts[part]
            num_read += 1
    with contextlib.suppress(BoxError):
        assert {*map(repr, all_ends(reader))} <= written.parts["steps"]
        assert {*map(repr, reader.steps_ended(0, 1 << 62, 100))} <= written.parts["steps"]
        num_read += 1
    assert reader.holder() is None
    return num_read
