"""What stands where in a step log. Pure.

    steps/<job_id>/<attempt>-rank-<rank>-<run uid>.<first number>.steps      a segment of one run of a rank

    header      magic, version, box layout version, size and crc32 of the identity, the identity as JSON
    blocks      magic, size, first number, how many, crc32 | boundaries, shuffled and compressed (zlib)

A block holds boundaries as they stood in the ring of the box (zmon/box/layout.py), torn ones included: each carries its
number and a crc32 that begins at the box's seed, which is in the identity. Shuffled means that the first bytes of all
boundaries come first, then the second ones (the byte shuffle of HDF5): what hardly changes from step to step lies
together, which halves the size. A segment begins with the last boundary of the one before, so its first step is whole
even after that one was deleted. Integers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from zmon.box import layout
from zmon.errors import ZmonError

SUFFIX = ".steps"
MOST_BOUNDARIES = 512  # in a block
_MAGIC, _VERSION = b"ZMONSTEP", 1
_HEADER = struct.Struct("<8sIIII")
_BLOCK_MAGIC = b"ZBLK"
_BLOCK = struct.Struct("<4sIQI")  # magic, bytes of the body, first number, boundaries
_CRC = struct.Struct("<I")
_BODY_AT = _BLOCK.size + _CRC.size
_LEVEL = 1  # higher ones save 5 % and cost twice the time


@dataclass(frozen=True, slots=True)
class Run:
    """A rank from its start to its end."""

    job_id: str
    attempt: int
    rank: int
    run_uid: str
    host: str
    start: float  # unix seconds
    seed: int  # of its box
    reports: tuple[str, ...] = ()  # names of its gauges, in the order of the box; there may be more in a later segment

    @property
    def stem(self) -> str:
        """What the names of its segments begin with."""
        return f"{self.attempt}-rank-{self.rank}-{self.run_uid}"

    def segment(self, first: int) -> str:
        """The name of the segment that begins with that boundary; in the order of names they are in that of time."""
        return f"{self.stem}.{first:012d}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Block:
    """Some boundaries in a row."""

    first: int
    count: int
    end: int  # where the next one begins
    body: bytes

    @property
    def last(self) -> int:
        """Number of its last boundary."""
        return self.first + self.count - 1

    def boundaries(self) -> bytes:
        """As they stood in the ring, one after the other."""
        shuffled = zlib.decompressobj().decompress(self.body, self.count * layout.BOUNDARY_SIZE)
        return _transposed(shuffled, self.count)


def pack_header(run: Run) -> bytes:
    """How a segment begins."""
    identity = msgspec.json.encode(asdict(run))
    return _HEADER.pack(_MAGIC, _VERSION, layout.VERSION, len(identity), zlib.crc32(identity)) + identity


def read_header(data: bytes) -> tuple[Run, int]:
    """Whose segment it is, and where its blocks begin. Raises ZmonError, which says what is wrong with it."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise ZmonError("it is no step log")
    _, version, box_version, size, crc = _HEADER.unpack_from(data)
    if (version, box_version) != (_VERSION, layout.VERSION):
        raise ZmonError("it was written by another version of zmon")
    identity = data[_HEADER.size : _HEADER.size + size]
    if zlib.crc32(identity) != crc:
        raise ZmonError("its header is damaged")
    try:
        return msgspec.json.decode(identity, type=Run), _HEADER.size + size
    except msgspec.DecodeError as error:
        raise ZmonError("its header is damaged") from error


def pack_block(first: int, boundaries: bytes) -> bytes:
    """Boundaries from that number on, as a block."""
    body = zlib.compress(_transposed(boundaries, layout.BOUNDARY_SIZE), _LEVEL)
    head = _BLOCK.pack(_BLOCK_MAGIC, len(body), first, len(boundaries) // layout.BOUNDARY_SIZE)
    return head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body


def blocks(data: bytes, at: int) -> Iterator[Block | None]:
    """The whole blocks; None for a stretch that is damaged.

    A last one that was cut off is no damage: its writer was stopped in the middle, or writes at this moment.
    """
    while at < len(data):
        found = _block(data, at)
        if found is None:
            begin, found = at, _next(data, at)
            if found is not None or not _cut_off(data, begin):
                yield None
            if found is None:
                return
        yield found
        at = found.end


def _next(data: bytes, at: int) -> Block | None:
    """The next whole block behind damage."""
    while (at := data.find(_BLOCK_MAGIC, at + 1)) >= 0:
        if found := _block(data, at):
            return found
    return None


def _block(data: bytes, at: int) -> Block | None:
    if len(data) < at + _BODY_AT:
        return None
    magic, size, first, count = _BLOCK.unpack_from(data, at)
    end = at + _BODY_AT + size
    if magic != _BLOCK_MAGIC or end > len(data) or not 0 < count <= MOST_BOUNDARIES:
        return None
    body = data[at + _BODY_AT : end]
    crc = zlib.crc32(body, zlib.crc32(data[at : at + _BLOCK.size]))
    return Block(first, count, end, body) if _CRC.unpack_from(data, at + _BLOCK.size)[0] == crc else None


def _cut_off(data: bytes, at: int) -> bool:
    rest = data[at : at + _BLOCK.size]
    if len(rest) < _BLOCK.size or len(data) < at + _BODY_AT:
        return rest[: len(_BLOCK_MAGIC)] == _BLOCK_MAGIC[: len(rest)]
    magic, size, _, count = _BLOCK.unpack(rest)
    return bool(magic == _BLOCK_MAGIC and count <= MOST_BOUNDARIES and at + _BODY_AT + size > len(data))


def _transposed(data: bytes, width: int) -> bytes:
    """Rows of that many bytes by columns; again, with the number of rows, back to rows."""
    return b"".join(data[column::width] for column in range(width))
