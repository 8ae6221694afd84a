"""How long did the last steps take? Asked all the time, so only the words that tell are taken out of a boundary.

Pure. Durations are seconds; a step is told only where the boundaries on both of its sides are whole.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from zmon.box import layout

_NS = 1e-9
_HEAD = struct.Struct("<Q5q")  # number, kind, step, time, steps, step ns
_CHECKED = layout.BOUNDARY.size


class Mark(NamedTuple):
    """The last boundary that was seen whole."""

    number: int
    step_ns: int  # time in steps so far


def durations(raw: bytes, first: int, seed: int, before: Mark | None) -> tuple[list[float], Mark | None]:
    """Of the steps that end in these bytes of a ring, numbered from `first` on; and the next `before` to hand in."""
    found = []
    for number, at in enumerate(range(0, len(raw), layout.BOUNDARY_SIZE), first):
        end = at + _CHECKED
        told, kind, _, _, _, step_ns = _HEAD.unpack_from(raw, at)
        if told != number or layout.CRC.unpack_from(raw, end)[0] != crc32(raw[at:end], seed):
            continue
        if kind == layout.STEP and before is not None and before.number == number - 1:
            found.append((step_ns - before.step_ns) * _NS)
        before = Mark(number, step_ns)
    return found, before
