"""The versions of the layout of a black box: the sizes and offsets of its parts.

Ranks write the current version. Readers understand it and the one before, so that a node can be upgraded while its jobs
run. Activities, phases and operations are numbered by their position in `zmon/schema/names.py`, where a new word is
appended: the numbers of an older version keep their meaning.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from zmon.box.identity import CURRENT_FIELDS, FIELDS_4, Packed
from zmon.box.layout import (
    CRC,
    MAX_GROUPS,
    MAX_REPORT_KEYS,
    NUM_COUNTS,
    NUM_HEAD,
    NUM_LIVE,
    NUM_TIMES,
    RING_CAPACITY,
)

MAX_ACTIVITIES = 8  # a state has three bits for the activity
# The parts of a boundary: its first numbers, the amounts of the step and the amounts so far, the nanoseconds by
# activity that belong to no step, a bit for each gauge reported since the previous boundary, the values of all gauges,
# times and counts. Each number has 8 bytes.
_PARTS = ("head", "step_amounts", "amounts", "between", "reported", "values", "times", "counts")
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
        """The bytes of one slot."""
        return aligned(self.struct.size + CRC.size)

    @property
    def end(self) -> int:
        """The offset of the byte after this cell."""
        return self.offset + 2 * self.slot_size


class Layout:
    """One version of the layout: cells, live words, and the ring of boundaries. Offsets and sizes are bytes."""

    def __init__(
        self, version: int, identity: dict[str, Packed], last_words: str, num_amounts: int, num_activities: int
    ) -> None:
        self.version = version
        self.identity_fields = identity
        self.identity = Cell("".join(packed.code for packed in identity.values()), _FIRST_OFFSET)
        # boundaries written, activity since, step since, the current step
        self.place = Cell("Q3q", self.identity.end)
        self.report = Cell("32sd" * MAX_REPORT_KEYS, self.place.end)
        self.words = Cell(last_words, self.report.end)
        self.groups = Cell("48si" * MAX_GROUPS, self.words.end)  # name, size
        self.live = self.groups.end
        self.ring = self.live + 8 * NUM_LIVE
        sizes = (NUM_HEAD, num_amounts, num_amounts, num_activities, 1, MAX_REPORT_KEYS, NUM_TIMES, NUM_COUNTS)
        self.edges = tuple(accumulate(sizes))  # the ends of the parts of a boundary, as indices of its numbers
        self.parts = {name: slice(*ends) for name, ends in zip(_PARTS, pairwise((0, *self.edges)), strict=True)}
        self.boundary = struct.Struct(f"<Q{self.edges[4] - 1}q{MAX_REPORT_KEYS}d{NUM_TIMES + NUM_COUNTS}q")
        self.boundary_size = aligned(self.boundary.size + CRC.size)
        self.file_size = self.ring + RING_CAPACITY * self.boundary_size


CURRENT = Layout(
    version=5,
    identity=CURRENT_FIELDS,
    # unix time, kind, whether the exception passed through a collective, type, message, place in the code, root
    last_words="qBB64s1024s256s512s",
    num_amounts=6,
    num_activities=MAX_ACTIVITIES,
)
LAYOUTS = {
    4: Layout(version=4, identity=FIELDS_4, last_words="qB64s1024s", num_amounts=4, num_activities=5),
    5: CURRENT,
}
