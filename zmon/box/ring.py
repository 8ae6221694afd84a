"""The ring of boundaries: which of them are still there, their bytes, and whether they can be believed.

The bytes may be kept as they are and judged later: each boundary carries its number and a crc32 that begins at the
seed of its box, so one that was overwritten while it was read is told from a whole one at any time.
"""

from __future__ import annotations

import os
import struct
from typing import Any
from zlib import crc32

from zmon.box import layout
from zmon.box.boundary import Boundary


def checked(layout_of: struct.Struct, raw: bytes, seed: int, at: int = 0) -> tuple[Any, ...] | None:
    """The values that stand there; None where the checksum behind them is wrong."""
    end = at + layout_of.size
    if len(raw) < end + layout.CRC.size or layout.CRC.unpack_from(raw, end)[0] != crc32(raw[at:end], seed):
        return None
    return layout_of.unpack_from(raw, at)


def boundary(raw: bytes, number: int, seed: int, at: int = 0) -> Boundary | None:
    """The boundary of that number; None where it is another one or damaged."""
    values = checked(layout.BOUNDARY, raw, seed, at)
    return None if values is None or values[0] != number else Boundary.of(values)


def kept(after: int, latest: int) -> range:
    """Numbers above `after` that are in the ring; not the oldest one, which the rank may be overwriting."""
    return range(max(after + 1, latest - layout.RING_CAPACITY + 2), latest + 1)


def read(fd: int, numbers: range) -> bytes:
    """Their bytes, one boundary after the other; fewer where the box was cut short."""
    slot = numbers.start % layout.RING_CAPACITY
    before_wrap = min(len(numbers), layout.RING_CAPACITY - slot)
    raw = os.pread(fd, before_wrap * layout.BOUNDARY_SIZE, layout.RING + slot * layout.BOUNDARY_SIZE)
    if before_wrap < len(numbers):
        raw += os.pread(fd, (len(numbers) - before_wrap) * layout.BOUNDARY_SIZE, layout.RING)
    return raw
