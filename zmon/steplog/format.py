"""The file format of the step log. Pure.

    steps/<job_id>/<attempt>-rank-<rank>-<run uid>.<first number>.steps      a segment of one run of a rank

    header      magic, version, box layout version, size and crc32 of the identity, the identity as JSON
    blocks      magic, size, first number, count, crc32 | boundaries, shuffled and compressed (zlib)

A block holds boundaries unchanged from the ring of the box (zmon/box/layout.py), including torn ones. Each boundary has
its number and a crc32 that begins at the box's seed, which is in the identity. Shuffled means that the first bytes of
all boundaries come first, then the second bytes, and so on (the byte shuffle of HDF5). Bytes that rarely change from
step to step are then neighbours, which halves the compressed size. A segment begins with the last boundary of the
segment before, so that its first step is complete even after the other segment was deleted. Integers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from zmon.box.versions import CURRENT, LAYOUTS
from zmon.errors import ZmonError
from zmon.format import plain_json
from zmon.schema.limits import MAX_WORLD_SIZE, check_job_id, check_rank

SUFFIX = ".steps"
MAX_BOUNDARIES = 512  # boundaries in a block
_MAGIC, _VERSION = b"ZMONSTEP", 1
_HEADER = struct.Struct("<8sIIII")
_BLOCK_MAGIC = b"ZBLK"
_BLOCK = struct.Struct("<4sIQI")  # magic, bytes of the body, first number, boundaries
_CRC = struct.Struct("<I")
_BODY_OFFSET = _BLOCK.size + _CRC.size
_COMPRESSION_LEVEL = 1  # higher levels save 5 % and take twice the time


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a rank, from its start to its end."""

    job_id: str
    attempt: int
    rank: int
    run_uid: str
    host: str
    start: float  # unix seconds
    seed: int  # seed of the checksums in its box
    box_version: int = CURRENT.version  # version of the layout of its box
    reports: tuple[str, ...] = ()  # names of the gauges that the job reports, in the order of the box; they may grow

    @property
    def boundary_size(self) -> int:
        return LAYOUTS[self.box_version].boundary_size

    @property
    def stem(self) -> str:
        """The common beginning of the names of its segments."""
        return f"{self.attempt}-rank-{self.rank}-{self.run_uid}"

    def segment(self, first: int) -> str:
        """Return the name of the segment that begins with this boundary. Names sort in the order of time."""
        return f"{self.stem}.{first:012d}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive boundaries."""

    first: int  # number of its first boundary
    count: int
    end: int  # offset in the segment at which the next block begins
    body: bytes  # its boundaries, shuffled and compressed

    @property
    def last(self) -> int:
        """The number of its last boundary."""
        return self.first + self.count - 1

    def boundaries(self, size: int) -> bytes:
        """Return the boundaries of `size` bytes unchanged from the ring, one after the other."""
        shuffled = zlib.decompressobj().decompress(self.body, self.count * size)
        return _transposed(shuffled, self.count)


def pack_header(run: Run) -> bytes:
    identity = msgspec.json.encode(asdict(run))
    return _HEADER.pack(_MAGIC, _VERSION, run.box_version, len(identity), zlib.crc32(identity)) + identity


def read_header(data: bytes) -> tuple[Run, int]:
    """Return the run of a segment and the offset of its first block. Raises ZmonError if the header is not usable."""
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise ZmonError("it is not a step log")
    _, version, box_version, size, crc = _HEADER.unpack_from(data)
    if version != _VERSION or box_version not in LAYOUTS:
        raise ZmonError("it was written by another version of zmon")
    identity = data[_HEADER.size : _HEADER.size + size]
    if zlib.crc32(identity) != crc:
        raise ZmonError("its header is damaged")
    try:
        run = msgspec.json.decode(plain_json(identity), type=Run)
        check_job_id(run.job_id)
        check_rank(run.rank, MAX_WORLD_SIZE)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ZmonError("its header is damaged") from error
    if run.box_version != box_version:
        raise ZmonError("its header is damaged")
    return run, _HEADER.size + size


def ends_in_header(data: bytes) -> bool:
    """Return True if a segment ends within its header, because its writer was stopped: it has no block."""
    return len(data) < _HEADER.size or len(data) < _HEADER.size + _HEADER.unpack_from(data)[3]


def pack_block(first: int, boundaries: bytes, size: int) -> bytes:
    """Return boundaries of `size` bytes as a block; `first` is the number of the first one."""
    body = zlib.compress(_transposed(boundaries, size), _COMPRESSION_LEVEL)
    head = _BLOCK.pack(_BLOCK_MAGIC, len(body), first, len(boundaries) // size)
    return head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body


def blocks(data: bytes, offset: int) -> Iterator[Block | None]:
    """Yield the complete blocks from `offset` on, and None for each damaged part.

    A last block that is cut off does not count as damaged: its writer was stopped in the middle, or is still writing.
    """
    while offset < len(data):
        block = _block(data, offset)
        if block is None:
            block = _next_block(data, offset)
            if block is not None or not _is_cut_off(data, offset):
                yield None
            if block is None:
                return
        yield block
        offset = block.end


def _next_block(data: bytes, offset: int) -> Block | None:
    """Return the next complete block after a damaged one."""
    while (offset := data.find(_BLOCK_MAGIC, offset + 1)) >= 0:
        if block := _block(data, offset):
            return block
    return None


def _block(data: bytes, offset: int) -> Block | None:
    """Return the block at an offset; None if there is no complete and undamaged one."""
    if len(data) < offset + _BODY_OFFSET:
        return None
    magic, size, first, count = _BLOCK.unpack_from(data, offset)
    end = offset + _BODY_OFFSET + size
    if magic != _BLOCK_MAGIC or end > len(data) or not 0 < count <= MAX_BOUNDARIES:
        return None
    body = data[offset + _BODY_OFFSET : end]
    crc = zlib.crc32(body, zlib.crc32(data[offset : offset + _BLOCK.size]))
    return Block(first, count, end, body) if _CRC.unpack_from(data, offset + _BLOCK.size)[0] == crc else None


def _is_cut_off(data: bytes, offset: int) -> bool:
    """Return True if the data ends within the block that begins at an offset."""
    head = data[offset : offset + _BLOCK.size]
    if len(head) < _BLOCK.size or len(data) < offset + _BODY_OFFSET:
        return head[: len(_BLOCK_MAGIC)] == _BLOCK_MAGIC[: len(head)]
    magic, size, _, count = _BLOCK.unpack(head)
    return bool(magic == _BLOCK_MAGIC and count <= MAX_BOUNDARIES and offset + _BODY_OFFSET + size > len(data))


def _transposed(data: bytes, width: int) -> bytes:
    """Return rows of `width` bytes as columns. Applied again with the number of rows, it restores the rows."""
    return b"".join(data[column::width] for column in range(width))
