"""The version of the layout of a black box: the sizes and offsets of its parts.

Ranks write this version. From the first tag of zmon on, readers understand it and the one before, so that a node can be
upgraded while its jobs run. A box of any other version is refused. Activities, phases and operations are numbered by
their position in `zmon/schema/names.py`, so a new word is appended there.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from zmon.box.identity import FIELDS
from zmon.box.layout import (
    BOUNDARY,
    CRC,
    GROUP_NAME_BYTES,
    MAX_GROUPS,
    MAX_REPORT_KEYS,
    NUM_LIVE,
    REPORT_KEY_BYTES,
    RING_CAPACITY,
    checked,
)
from zmon.schema.names import LOSS_SOURCES

_FIRST_OFFSET = 64  # of the identity; the prefix is before it


def aligned(size: int) -> int:
    """Round up to a multiple of 8."""
    return (size + 7) // 8 * 8


@dataclass(frozen=True)
class Cell:
    """A group of values that change together; `format` leaves out the leading counter."""

    format: str
    offset: int

    @cached_property
    def struct(self) -> struct.Struct:
        """The packing of counter and values, without the crc."""
        return struct.Struct("<Q" + self.format)

    @property
    def slot_size(self) -> int:
        return aligned(self.struct.size + CRC.size)

    @property
    def end(self) -> int:
        """The offset of the byte after this cell."""
        return self.offset + 2 * self.slot_size

    def read(self, fd: int, seed: int) -> tuple[Any, ...] | None:
        """Return the values in the newer valid slot, without the counter; None if the checksums of both are wrong."""
        raw = os.pread(fd, 2 * self.slot_size, self.offset)
        slots = (checked(self.struct, raw, seed, offset) for offset in (0, self.slot_size))
        newest = max((values for values in slots if values is not None), key=itemgetter(0), default=None)
        return None if newest is None else newest[1:]


class Layout:
    """One version of the layout: cells, live words, and the ring of boundaries. Offsets and sizes are bytes."""

    version = 11

    def __init__(self) -> None:
        self.identity = Cell("".join(packed.code for packed in FIELDS.values()), _FIRST_OFFSET)
        # Boundaries written, activity since, step since, the current step.
        self.place = Cell("Q3q", self.identity.end)
        self.report = Cell(f"{REPORT_KEY_BYTES}sd" * MAX_REPORT_KEYS, self.place.end)  # name and value of each gauge
        # By source of losses: the step since which they are not finite, or FINITE.
        self.losses = Cell("q" * len(LOSS_SOURCES), self.report.end)
        # Unix time, kind, whether the exception passed through a collective, type, message, place in the code, root.
        self.words = Cell("qBB64s1024s256s512s", self.losses.end)
        self.groups = Cell(f"{GROUP_NAME_BYTES}si" * MAX_GROUPS, self.words.end)  # name and size of each group
        self.live = self.groups.end
        self.ring = self.live + 8 * NUM_LIVE
        self.boundary_size = aligned(BOUNDARY.size + CRC.size)
        self.file_size = self.ring + RING_CAPACITY * self.boundary_size


CURRENT = Layout()
LAYOUTS = {CURRENT.version: CURRENT}
