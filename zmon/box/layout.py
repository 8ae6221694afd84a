"""What stands where in a black box: the one layout that writer and reader share.

    prefix      magic, version, ring capacity, file size          (never changes)
    cells       identity · now · totals · report · words · groups (each twice, by turns)
    sequences   one self-checked counter per process group
    ring        the last 4,096 step records
    tail        what the signal handler appends when the rank is terminated

A **cell** has two slots written by turns, each `counter, values…, crc32`: a writer that is stopped in the
middle of one leaves the other intact, and a reader takes the valid slot with the larger counter. A ring
record carries its own number and a crc32 as well, so a torn or damaged one is never mistaken for a whole one
on any processor. Integers are little-endian; times CLOCK_MONOTONIC nanoseconds unless called unix; -1 is
"unknown".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from zmon.records import OPS, PHASES

MAGIC = b"ZMONBOX\0"
VERSION = 1
RING_CAPACITY = 4096  # records; a few minutes of 20 ms steps
MAX_GROUPS = 8
MAX_REPORT_KEYS = 4
TAIL_READ_BYTES = 16384  # of what a terminated rank left behind its box
NONE = 255  # "no op", "no group" in a byte
UNKNOWN = -1

OP_FIELDS = ("count", "exposed_ns", "inflight_ns", "sent_bytes", "received_bytes")

# Where each number of a step (and of the totals) stands in the flat list `measures`.
SAMPLES, LOOKUPS, NETWORK_SENT, NETWORK_RECEIVED, NIC_SENT, NIC_RECEIVED = range(6)
PHASE = 6
OP = PHASE + len(PHASES)
NUM_MEASURES = OP + len(OPS) * len(OP_FIELDS)

CRC = struct.Struct("<I")
PREFIX = struct.Struct("<8sIIQ")
SEQUENCE = struct.Struct("<QQ")  # the counter and its complement
RECORD = struct.Struct(f"<Q4q{NUM_MEASURES}q")  # number, step, start, duration, memory peak, measures


def aligned(size: int) -> int:
    """The next multiple of 8."""
    return (size + 7) // 8 * 8


@dataclass(frozen=True)
class Cell:
    """A group of values that changes together; `format` without the leading counter."""

    format: str
    offset: int

    @cached_property
    def struct(self) -> struct.Struct:
        """Counter and values as packed, the crc not included."""
        return struct.Struct("<Q" + self.format)

    @property
    def slot_size(self) -> int:
        """Bytes of one slot."""
        return aligned(self.struct.size + CRC.size)

    @property
    def end(self) -> int:
        """Where the next thing begins."""
        return self.offset + 2 * self.slot_size


# pid, uid, start, start unix, launcher's pid and start | rank, local rank, world, local world, attempt,
# restarts, max restarts | job id, device, backend, socket path, labels as JSON
IDENTITY = Cell("q16sqqqq7i4x64s64s32s256s1024s", 64)
# since, activity since, step since, step, sequence, bytes | activity, phase, op, group
NOW = Cell("4qQQ4B", IDENTITY.end)
# steps, step ns, last step unix, last checkpoint unix, memory (allocated, reserved, peak), overhead, dropped
TOTALS = Cell(f"9q{NUM_MEASURES}q", NOW.end)
REPORT = Cell("32sd" * MAX_REPORT_KEYS, TOTALS.end)
WORDS = Cell("qB64s1024s", REPORT.end)  # unix time, kind, type, message
GROUPS = Cell("48si" * MAX_GROUPS, WORDS.end)  # name, size
SEQUENCES = GROUPS.end
RING = aligned(SEQUENCES + MAX_GROUPS * SEQUENCE.size)
RECORD_SIZE = aligned(RECORD.size + CRC.size)
FILE_SIZE = RING + RING_CAPACITY * RECORD_SIZE

WORDS_KINDS = ("", "exception", "exit", "signal")


def text(raw: bytes) -> str:
    """A fixed-width field as text."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def field(value: str, size: int) -> bytes:
    """Text cut to a fixed-width field, never in the middle of a character."""
    return value.encode("utf-8", "replace")[: size - 1].decode("utf-8", "ignore").encode()
