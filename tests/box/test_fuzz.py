"""Tests of the reader with ten thousand damaged boxes.

The reader does not crash, and returns only values that the writer wrote. Memory and time are limited in a sample of the
reads.

Damage that no check covers is left out. The live words do not detect damage that fits both words of a pair: in the
highest two bytes of a state's words, or in both words so that their sum stays; in the same bits of a number and its
complement; or whole words moved from elsewhere. The tail behind the box is not damaged either.
"""

import contextlib
import os
import random
import struct
import time
import tracemalloc
from zlib import crc32

import pytest

from tests.box.written import CELLS, HEAD, NUM_PARTS, WRITTEN_BOUNDARIES, Written, check_parts
from zmon.box import layout
from zmon.box.reader import BoxReader
from zmon.box.steps import aligned_steps, totals, whole_steps
from zmon.box.versions import CURRENT
from zmon.errors import BoxError

FILES, PER_SEED = 10_000, 500
MAX_MEMORY_BYTES, MAX_CPU_SECONDS = 8 << 20, 2.0  # limits of one reader of one file
STATE = range(CURRENT.live, CURRENT.live + 32)  # the bytes of both states: each is a pair of words of 8 bytes
COPIED_BYTES = 3 * HEAD  # of a box, for each damage: the damaged offsets are below 2 * HEAD


def random_offset(chance):
    """Return a random offset, mostly of a value."""
    return chance.randrange(*chance.choice(((0, CURRENT.ring), (CURRENT.live, CURRENT.ring), (0, HEAD), (0, 2 * HEAD))))


def flip_bits(data, chance, other):
    for _ in range(chance.choice((1, 1, 2, 3, 8, 100))):
        data[random_offset(chance)] ^= 1 << chance.randrange(8)


def overwrite_runs(data, chance, other):
    """Overwrite runs of bytes with random bytes, ones or zeros."""
    for _ in range(chance.choice((1, 1, 4))):
        offset = random_offset(chance)
        size = chance.choice((1, 4, 8, 64, 700, 5000))
        data[offset : offset + size] = chance.choice((chance.randbytes(size), b"\xff" * size, bytes(size)))


def clear_pages(data, chance, other):
    """Clear whole pages, as if they were lost with the machine."""
    for offset in chance.sample(range(0, HEAD, 4096), chance.randrange(1, 4)):
        data[offset : offset + 4096] = bytes(4096)


def swap_pieces(data, chance, other):
    """Swap two pieces of the box."""
    size = chance.choice((8, 16, 64, CURRENT.boundary_size, 4096))
    unit = chance.choice((1, 8))
    a, b = (random_offset(chance) // unit * unit for _ in range(2))
    data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]


def insert_pieces(data, chance, other):
    """Insert a piece of another box, at the same or another offset, but not the prefix, which identifies the box."""
    if chance.random() < 0.5:  # insert whole boundaries
        offset = CURRENT.ring + chance.randrange(WRITTEN_BOUNDARIES) * CURRENT.boundary_size
        size = CURRENT.boundary_size * chance.randrange(4)
    else:
        offset = random_offset(chance)
        size = chance.choice((8, 100, CURRENT.boundary_size, CURRENT.words.slot_size, 4096))
    source = offset if chance.random() < 0.7 else random_offset(chance)
    prefix = data[: layout.PREFIX.size]
    data[offset : offset + size] = other[source : source + size]
    data[: layout.PREFIX.size] = prefix


# Each takes the bytes of a box, which it changes, a source of randomness, and the bytes of another box.
DAMAGES = (flip_bits, overwrite_runs, clear_pages, swap_pieces, insert_pieces)


def damage_copy(pristine, other, chance):
    """Return the damaged head of a box, and the names of the damages."""
    data = bytearray(pristine[:COPIED_BYTES])
    damages = chance.sample(DAMAGES, chance.choice((1, 1, 1, 2, 3)))
    for damage in damages:
        damage(data, chance, other)
    moved = swap_pieces in damages or insert_pieces in damages
    # The damage that no check covers is repaired (see the docstring of the module).
    for offset in STATE if moved else (offset for offset in STATE if offset % 8 >= 6):
        data[offset] = pristine[offset]
    for offset in range(STATE.start, STATE.stop, 16):
        if _sum_of_pair(data, offset) == _sum_of_pair(pristine, offset):
            data[offset : offset + 16] = pristine[offset : offset + 16]
    for offset in range(STATE.stop, CURRENT.ring, 16):
        number, complement = (_changed_bits(data, pristine, offset + word) for word in (0, 8))
        if number == complement:
            data[offset : offset + 16] = pristine[offset : offset + 16]
    return data[:COPIED_BYTES], [damage.__name__ for damage in damages]


def _changed_bits(data, pristine, offset):
    """Return the changed bits of a word."""
    return int.from_bytes(data[offset : offset + 8], "little") ^ int.from_bytes(pristine[offset : offset + 8], "little")


def _sum_of_pair(data, offset):
    """Return the sum of the two words of a state."""
    return sum(struct.unpack_from("<2q", data, offset))


@contextlib.contextmanager
def limited_resources():
    """Fail if a read needs too much memory or time."""
    begin = time.process_time()
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MAX_MEMORY_BYTES
    assert time.process_time() - begin < MAX_CPU_SECONDS


@pytest.mark.parametrize("seed", range(FILES // PER_SEED))
def test_damaged_box_returns_only_written_values(boxes, tmp_path, seed):
    (pristine, written), (other, _) = boxes
    path = tmp_path / "rank-0.box"
    path.write_bytes(pristine)
    chance = random.Random(seed)
    num_read = 0
    with path.open("r+b", buffering=0) as file:
        for number in range(PER_SEED):
            data, names = damage_copy(pristine, other, chance)
            os.pwrite(file.fileno(), data, 0)
            cut = chance.randrange(CURRENT.file_size) if number % 50 == 0 else None
            if cut is not None:
                file.truncate(cut)
            try:
                with (
                    limited_resources() if number % 100 == 0 else contextlib.nullcontext(),
                    contextlib.suppress(BoxError),
                ):
                    reader = BoxReader(path)
                    try:
                        num_read += check_parts(reader, written)
                    finally:
                        reader.close()
            except Exception as error:
                raise AssertionError(f"seed {seed}, file {number}: {names}") from error
            if cut is not None:
                os.pwrite(file.fileno(), pristine, 0)
    assert num_read > 2 * PER_SEED  # most damage leaves most parts of a box readable


def test_undamaged_box_returns_all_parts_and_check_detects_another_box(boxes, tmp_path):
    (pristine, written), (other_box, _) = boxes
    path = tmp_path / "rank-0.box"
    path.write_bytes(pristine)
    reader = BoxReader(path)
    assert check_parts(reader, written) == NUM_PARTS
    path.write_bytes(other_box)
    other = BoxReader(path)
    with pytest.raises(AssertionError):
        check_parts(other, written)
    reader.close()
    other.close()


def test_random_files_are_refused_or_corrupt(tmp_path):
    path = tmp_path / "rank-0.box"
    chance = random.Random(7)
    for number in range(400):
        data = chance.randbytes(chance.choice((0, 7, 24, 100, 8192, 65536)))
        if number % 2:
            start = layout.MAGIC, CURRENT.version, layout.RING_CAPACITY, CURRENT.file_size
            data = layout.PREFIX.pack(*start, chance.randrange(1 << 32)) + data
        path.write_bytes(data)
        os.truncate(path, chance.choice((chance.randrange(len(data) + 1), CURRENT.file_size, 1 << 40)))
        with limited_resources() if number % 20 == 0 else contextlib.nullcontext(), contextlib.suppress(BoxError):
            reader = BoxReader(path)
            try:
                assert check_parts(reader, Written()) == 0
            finally:
                reader.close()


def test_impossible_values_with_valid_checksums_do_not_crash_the_reader(boxes, tmp_path):
    """A user who can write to the directory can compute checksums. Even so no reader may crash or fill the memory."""
    path = tmp_path / "rank-0.box"
    pristine, _ = boxes[0]
    path.write_bytes(pristine)
    seed = layout.PREFIX.unpack_from(pristine)[-1]
    chance = random.Random(11)
    extremes = [0, 1, (1 << 64) - 1, (1 << 63) - 1, 1 << 63, layout.RING_CAPACITY]

    def values(size):
        numbers = (chance.choice((*extremes, chance.randrange(1 << 64))) for _ in range(size // 8))
        return b"".join(struct.pack("<Q", number) for number in numbers) + b"[" * (size % 8)

    def with_checksum(raw):
        return raw + layout.CRC.pack(crc32(raw, seed))

    with path.open("r+b", buffering=0) as file:
        for number in range(150):
            os.pwrite(file.fileno(), pristine[:HEAD], 0)
            for cell in CELLS:
                if chance.random() < 0.5:
                    offset = cell.offset + chance.choice((0, cell.slot_size))
                    os.pwrite(file.fileno(), with_checksum(values(cell.struct.size)), offset)
            for slot in range(WRITTEN_BOUNDARIES):
                if chance.random() < 0.5:
                    raw = struct.pack("<Q", slot) + values(layout.BOUNDARY.size - 8)
                    os.pwrite(file.fileno(), with_checksum(raw), CURRENT.ring + slot * CURRENT.boundary_size)
            with limited_resources() if number % 20 == 0 else contextlib.nullcontext():
                reader = BoxReader(path)
                for read in (reader.now, reader.identity, reader.report, reader.words, reader.groups,
                             reader.not_finite_since, reader.sequences, lambda r=reader: totals(r.last_boundary()),
                             lambda r=reader: whole_steps({"": r.steps_ended(-1 << 63, 1 << 63, 1 << 63)}),
                             lambda r=reader: aligned_steps({"": r.steps_spread(-1 << 63, 1 << 63, 8)})):  # fmt: skip
                    with contextlib.suppress(BoxError):
                        read()
                reader.close()
