"""Ten thousand damaged boxes: none crashes, holds up or swells a reader, or makes it tell what was not written.

Left out is what no check covers. The live words are no match for damage that fits both words of a pair: the highest
two bytes of a state's, the same bits of a number and its complement, whole words moved from elsewhere. And what stands
behind the box is as the signal handler wrote it.
"""

import contextlib
import os
import random
import struct
import time
import tracemalloc
from dataclasses import dataclass, field, replace
from zlib import crc32

import pytest

from tests.boxes import Box
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.errors import BoxError
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, PHASE_NUMBER, TRAIN

FILES, PER_SEED = 10_000, 500
MOST_MEMORY, MOST_SECONDS = 8 << 20, 2.0  # of one reader of one file; seconds of the test's process alone
STATE = range(layout.LIVE, layout.LIVE + 32)
CELLS = (layout.IDENTITY, layout.PLACE, layout.REPORT, layout.WORDS, layout.GROUPS)
HEAD = layout.RING + 24 * layout.BOUNDARY_SIZE  # where the values are


@dataclass
class Written:
    """Every value that a box can be read to hold, in the slots it has."""

    states: set = field(default_factory=set)
    places: set = field(default_factory=set)
    numbers: set = field(default_factory=set)
    entered: set = field(default_factory=set)
    told: dict = field(default_factory=dict)  # by part: what it was, as text


def lively(root, rank):
    """A box in which everything was written at least twice."""
    box = Box(root, identity={"rank": rank})
    chance = random.Random(rank)
    written = Written(
        told={part: set() for part in ("identity", "totals", "report", "words", "groups", "records", "steps")}
    )
    look(box.path, written)
    for step in range(12):
        if step in (4, 8):
            box.timeline.turn_to((EVAL, CHECKPOINT)[step == 8])
            look(box.path, written)
            box.timeline.turn_to(TRAIN)
        box.timeline.begin_step(None)
        box.ledger.work(samples=chance.randrange(100), lookups=None)
        for phase in ("data", "embedding"):
            box.clock.ns += chance.randrange(10_000)
            box.timeline.phase(PHASE_NUMBER[phase])
            look(box.path, written)
        group = box.timeline.group(f"group-{rank}-{step % 5}", 2)
        box.timeline.enter_op(OP_NUMBER["all_to_all"], group, chance.randrange(1 << 40), step)
        look(box.path, written)
        if step == 11:
            break
        box.clock.ns += chance.randrange(10_000)
        box.timeline.leave_op()
        box.ledger.report({"loss": chance.random(), "step": step})
        box.writer.identity(replace(box.who, device=f"cuda:{rank}:{step}"))
        if step > 9:
            box.timeline.last_words("exception", f"Error{rank}", f"batch {step}")
        look(box.path, written)
        box.timeline.end_step()
        look(box.path, written)
    return box.path.read_bytes(), written


def look(path, written):
    """Take down everything that this box says now."""
    reader = BoxReader(path)
    now = reader.now()
    written.states.add((now.since, now.activity, now.phase, now.op, now.group))
    written.places.add(place(now))
    written.numbers |= {0, now.num_bytes, now.sequence, *reader.sequences().values()}
    written.entered |= set(reader.entered())
    for part in ("identity", "totals", "report", "words", "groups"):
        written.told[part].add(repr(getattr(reader, part)()))
    records = reader.records(0)
    written.told["records"] |= {repr(pair) for pair in records}
    written.told["steps"] |= {repr(record) for _, record in records}
    reader.close()


def place(now):
    """What stands in the place cell."""
    return now.activity_since, now.step_since, now.step + (now.activity != "train")


def judged(reader, written):
    """Read everything; what is told must have been written. Returns how much was told."""
    num_told = 0
    with contextlib.suppress(BoxError):
        now = reader.now()
        assert (now.since, now.activity, now.phase, now.op, now.group) in written.states
        assert place(now) in written.places
        assert {now.num_bytes, now.sequence} <= written.numbers
        num_told += 1
    with contextlib.suppress(BoxError):
        sequences = reader.sequences()
        assert set(sequences.values()) <= written.numbers
        num_told += len(sequences) == layout.MAX_GROUPS
    with contextlib.suppress(BoxError):
        assert set(reader.entered()) <= written.entered
    for part in ("identity", "totals", "report", "words", "groups"):
        with contextlib.suppress(BoxError):
            assert repr(getattr(reader, part)()) in written.told[part]
            num_told += 1
    with contextlib.suppress(BoxError):
        records = reader.records(0)
        assert {repr(pair) for pair in records} <= written.told["records"]
        ended = [repr(record) for record in reader.records_ended(0, 1 << 62, 100)]
        assert set(ended) <= written.told["steps"]
        num_told += 1
    assert reader.holder() is None
    return num_told


# -- damage ------------------------------------------------------------------------------------------------


def anywhere(chance):
    """An offset, mostly where values are."""
    return chance.randrange(*chance.choice(((0, layout.RING), (layout.LIVE, layout.RING), (0, HEAD), (0, 2 * HEAD))))


def flips(data, chance, other):
    for _ in range(chance.choice((1, 1, 2, 3, 8, 100))):
        data[anywhere(chance)] ^= 1 << chance.randrange(8)


def runs(data, chance, other):
    for _ in range(chance.choice((1, 1, 4))):
        at, size = anywhere(chance), chance.choice((1, 4, 8, 64, 700, 5000))
        data[at : at + size] = chance.choice((chance.randbytes(size), b"\xff" * size, bytes(size)))


def pages(data, chance, other):
    """Lost pages, as after a machine that went down."""
    for at in chance.sample(range(0, HEAD, 4096), chance.randrange(1, 4)):
        data[at : at + 4096] = bytes(4096)


def swaps(data, chance, other):
    size = chance.choice((8, 16, 64, layout.BOUNDARY_SIZE, 4096))
    unit = chance.choice((1, 8))
    a, b = (anywhere(chance) // unit * unit for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def splices(data, chance, other):
    """A piece of another box, in its own place or elsewhere; not its prefix, which would make this that box."""
    at, size = anywhere(chance), chance.choice((8, 100, layout.BOUNDARY_SIZE, 1552, 4096))
    if chance.random() < 0.5:  # whole boundaries
        at, size = layout.RING + chance.randrange(24) * layout.BOUNDARY_SIZE, layout.BOUNDARY_SIZE * chance.randrange(4)
    source = at if chance.random() < 0.7 else anywhere(chance)
    prefix = data[: layout.PREFIX.size]
    data[at : at + size] = other[source : source + size]
    data[: layout.PREFIX.size] = prefix


DAMAGES = (flips, runs, pages, swaps, splices)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    """Two boxes as they were written, and what was written into both."""
    root = tmp_path_factory.mktemp("fuzz")
    return [lively(root, rank) for rank in (0, 1)]


def damaged(pristine, other, chance):
    """The head of a box after some damage, and the damage's name."""
    data = bytearray(pristine[: 3 * HEAD])
    names = []
    for damage in chance.sample(DAMAGES, chance.choice((1, 1, 1, 2, 3))):
        damage(data, chance, other)
        names.append(damage.__name__)
    moved = {"swaps", "splices"} & set(names)
    for at in STATE if moved else (at for at in STATE if at % 8 >= 6):
        data[at] = pristine[at]
    for at in range(STATE.stop, layout.RING, 16):
        number, complement = (_changed(data, pristine, at + word) for word in (0, 8))
        if number == complement:
            data[at : at + 16] = pristine[at : at + 16]
    return data[: 3 * HEAD], names


def _changed(data, pristine, at):
    """Which bits of a word."""
    return int.from_bytes(data[at : at + 8], "little") ^ int.from_bytes(pristine[at : at + 8], "little")


@contextlib.contextmanager
def bounded():
    """Memory and time of one reading."""
    begin = time.process_time()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert time.process_time() - begin < MOST_SECONDS


@pytest.mark.parametrize("seed", range(FILES // PER_SEED))
def test_damaged_box_tells_only_what_was_written(boxes, tmp_path, seed):
    (pristine, written), (other, _) = boxes
    path = tmp_path / "rank-0.box"
    path.write_bytes(pristine)
    chance = random.Random(seed)
    num_told = 0
    with path.open("r+b", buffering=0) as file:
        for number in range(PER_SEED):
            data, names = damaged(pristine, other, chance)
            os.pwrite(file.fileno(), data, 0)
            cut = chance.randrange(layout.FILE_SIZE) if number % 50 == 0 else None
            if cut is not None:
                file.truncate(cut)
            try:
                with bounded() if number % 100 == 0 else contextlib.nullcontext(), contextlib.suppress(BoxError):
                    reader = BoxReader(path)
                    try:
                        num_told += judged(reader, written)
                    finally:
                        reader.close()
            except Exception as error:
                raise AssertionError(f"seed {seed}, file {number}: {names}") from error
            if cut is not None:
                os.pwrite(file.fileno(), pristine, 0)
    assert num_told > 2 * PER_SEED  # most damage leaves most of a box


def test_whole_box_tells_everything_and_the_judge_hears_a_lie(boxes, tmp_path):
    pristine, written = boxes[0]
    path = tmp_path / "rank-0.box"
    path.write_bytes(pristine)
    reader = BoxReader(path)
    assert judged(reader, written) == 8
    path.write_bytes(boxes[1][0])
    other = BoxReader(path)
    with pytest.raises(AssertionError):
        judged(other, written)
    reader.close()
    other.close()


def test_random_files_are_refused_or_corrupt(tmp_path):
    path = tmp_path / "rank-0.box"
    chance = random.Random(7)
    for number in range(400):
        data = bytearray(chance.randbytes(chance.choice((0, 7, 24, 100, 8192, 65536))))
        prefix = layout.PREFIX.pack(
            layout.MAGIC, layout.VERSION, layout.RING_CAPACITY, layout.FILE_SIZE, chance.randrange(1 << 32)
        )
        data[: chance.choice((8, 12, 16, 24, 28)) if number % 2 else 0] = b""
        path.write_bytes(prefix[: 28 if number % 2 else 0] + data)
        os.truncate(path, chance.choice((len(data), layout.FILE_SIZE, 1 << 40)))
        with bounded() if number % 20 == 0 else contextlib.nullcontext(), contextlib.suppress(BoxError):
            reader = BoxReader(path)
            try:
                assert judged(reader, Written()) == 0
            finally:
                reader.close()


def test_values_that_no_rank_would_write_but_that_check_are_no_way_in(boxes, tmp_path):
    """Whoever may write to the directory can make every checksum right: the reader still neither breaks nor grows."""
    path = tmp_path / "rank-0.box"
    pristine, _ = boxes[0]
    path.write_bytes(pristine)
    seed = layout.PREFIX.unpack_from(pristine)[-1]
    chance = random.Random(11)
    extremes = [0, 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, layout.RING_CAPACITY]

    def sealed(size):
        numbers = (chance.choice((*extremes, chance.randrange(1 << 64))) for _ in range(size // 8))
        raw = b"".join(struct.pack("<Q", number) for number in numbers) + b"[" * (size % 8)
        return raw + layout.CRC.pack(crc32(raw, seed))

    with path.open("r+b", buffering=0) as file:
        for number in range(150):
            os.pwrite(file.fileno(), pristine[:HEAD], 0)
            for cell in CELLS:
                if chance.random() < 0.5:
                    os.pwrite(file.fileno(), sealed(cell.struct.size), cell.offset + chance.choice((0, cell.slot_size)))
            for at in range(24):
                if chance.random() < 0.5:
                    raw = struct.pack("<Q", at) + sealed(layout.BOUNDARY.size)[8:-4]
                    whole = raw + layout.CRC.pack(crc32(raw, seed))
                    os.pwrite(file.fileno(), whole, layout.RING + at * layout.BOUNDARY_SIZE)
            with bounded() if number % 20 == 0 else contextlib.nullcontext():
                reader = BoxReader(path)
                for read in (reader.now, reader.identity, reader.totals, reader.report, reader.words, reader.groups,
                             reader.sequences, lambda r=reader: r.records(0),
                             lambda r=reader: r.records_ended(-1 << 63, 1 << 63, 1 << 63)):  # fmt: skip
                    with contextlib.suppress(BoxError):
                        read()
                reader.close()
