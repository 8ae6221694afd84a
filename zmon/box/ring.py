"""The ring of boundaries: their numbers, their bytes, and their checksums.

Bytes can be stored unchecked and checked later. Each boundary carries its number and a crc32 that starts at the seed of
its box. So a boundary that was overwritten while it was read is detected at any later time.
"""

from __future__ import annotations

import os
import struct
from typing import Any
from zlib import crc32

from zmon.box import layout
from zmon.box.boundary import Boundary


def checked(packing: struct.Struct, raw: bytes, seed: int, offset: int = 0) -> tuple[Any, ...] | None:
    """Unpack the values at `offset`; return None if the checksum behind them is wrong."""
    end = offset + packing.size
    if len(raw) < end + layout.CRC.size or layout.CRC.unpack_from(raw, end)[0] != crc32(raw[offset:end], seed):
        return None
    return packing.unpack_from(raw, offset)


def boundary(raw: bytes, number: int, seed: int, offset: int = 0) -> Boundary | None:
    """Decode the boundary with this number; return None if it is damaged or has another number."""
    values = checked(layout.BOUNDARY, raw, seed, offset)
    return None if values is None or values[0] != number else Boundary.from_numbers(values)


def available(after: int, latest: int) -> range:
    """Return the numbers above `after` that are still in the ring.

    The oldest one is left out, because the rank may be overwriting it.
    """
    return range(max(after + 1, latest - layout.RING_CAPACITY + 2), latest + 1)


def read(fd: int, numbers: range) -> bytes:
    """Return the bytes of these boundaries, one after the other; fewer bytes if the box was truncated."""
    slot = numbers.start % layout.RING_CAPACITY
    before_wrap = min(len(numbers), layout.RING_CAPACITY - slot)
    raw = os.pread(fd, before_wrap * layout.BOUNDARY_SIZE, layout.RING + slot * layout.BOUNDARY_SIZE)
    if before_wrap < len(numbers):
        raw += os.pread(fd, (len(numbers) - before_wrap) * layout.BOUNDARY_SIZE, layout.RING)
    return raw
