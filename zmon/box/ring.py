"""The ring of boundaries: their numbers, their bytes, and their checksums.

Bytes can be stored unchecked and checked later. Each boundary carries its number and a crc32 that starts at the seed of
its box. So a boundary that was overwritten while it was read is detected at any later time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from zmon.box.layout import BOUNDARY, NUMBER, RING_CAPACITY, checked
from zmon.box.versions import Layout

Row = Sequence[int]  # the numbers of a boundary, in the order of `zmon.box.layout`; the values of gauges are floats


def boundary(raw: bytes, number: int, seed: int, offset: int = 0) -> Row | None:
    """Unpack the boundary with this number; return None if it is damaged or has another number."""
    row = checked(BOUNDARY, raw, seed, offset)
    return None if row is None or row[NUMBER] != number else row


def boundaries(raw: bytes, first: int, seed: int, layout: Layout) -> Iterator[Row]:
    """Yield the undamaged boundaries in these bytes of a ring, which are numbered from `first` on."""
    for number, offset in enumerate(range(0, len(raw), layout.boundary_size), first):
        row = boundary(raw, number, seed, offset)
        if row is not None:
            yield row


def readable(after: int, latest: int) -> range:
    """Return the numbers above `after` in the ring, without the oldest one, which the rank may be overwriting."""
    return range(max(after + 1, latest - RING_CAPACITY + 2), latest + 1)


def read(fd: int, numbers: range, layout: Layout) -> bytes:
    """Return the bytes of these boundaries, one after the other; fewer bytes if the box was truncated."""
    slot = numbers.start % RING_CAPACITY
    before_wrap = min(len(numbers), RING_CAPACITY - slot)
    raw = os.pread(fd, before_wrap * layout.boundary_size, layout.ring + slot * layout.boundary_size)
    if before_wrap < len(numbers):
        raw += os.pread(fd, (len(numbers) - before_wrap) * layout.boundary_size, layout.ring)
    return raw
