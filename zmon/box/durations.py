"""The durations of the last steps, read without decoding whole boundaries.

Pure. Only the words of a boundary that are needed are decoded, because the agent reads durations ten times a second.
Durations are in seconds. A step is included only if the boundaries on both of its sides are undamaged.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from zmon.box import layout
from zmon.box.versions import Layout

_NS = 1e-9
_HEAD = struct.Struct("<Q5q")  # number, kind, step, time, steps, step ns


class Mark(NamedTuple):
    """The last undamaged boundary of the previous call."""

    number: int
    step_ns: int  # time in steps so far


def durations(
    raw: bytes, first: int, seed: int, previous: Mark | None, box_layout: Layout
) -> tuple[list[float], Mark | None]:
    """Return the durations of the steps that end in `raw`, and the value of `previous` for the next call.

    `raw` holds boundaries of a ring, numbered from `first` on. `seed` is the random seed of the box
    and `box_layout` its layout.
    """
    seconds, checked_size = [], box_layout.boundary.size
    for number, start in enumerate(range(0, len(raw), box_layout.boundary_size), first):
        end = start + checked_size
        written_number, kind, _, _, _, step_ns = _HEAD.unpack_from(raw, start)
        if written_number != number or layout.CRC.unpack_from(raw, end)[0] != crc32(raw[start:end], seed):
            continue
        if kind == layout.STEP and previous is not None and previous.number == number - 1:
            seconds.append((step_ns - previous.step_ns) * _NS)
        previous = Mark(number, step_ns)
    return seconds, previous
