"""The layout of a black box, shared by writer and reader.

    prefix      magic, version, ring capacity, file size, seed    (never changes)
    cells       identity · place · report · words · groups         (two slots each)
    live        the current state, the last two collectives, the sequence of each group: plain 64-bit words
    ring        the last 4,096 boundaries
    tail        the stack that the signal handler appends when the rank is terminated

A **cell** has two slots, each `counter, values…, crc32`, and the writer alternates between them. A writer that is
stopped in the middle of one slot leaves the other intact. The reader uses the valid slot with the larger counter.

The **live** words are written at every change of phase and at every collective, so they must cost no packing and no
checksum. A state and the time of its start are two words that check each other; there are two such slots, used
alternately. A number is followed by its complement. Each word is written by one aligned 64-bit store. Numbers are
written first, the state that refers to them last.

A **boundary** is written when a step ends and when the rank changes its activity. It holds all totals so far. A step is
the difference between its own boundary and the previous one, so nothing is added up twice. A boundary carries its own
number and a crc32, so a torn or damaged one is recognized on any processor. Every crc32 starts at the random seed of
the box, so bytes from another box do not pass the check.

Integers are little-endian. Times are CLOCK_MONOTONIC nanoseconds unless called unix. -1 means unknown.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, NamedTuple, get_type_hints

from zmon.schema import names
from zmon.schema.names import ACTIVITIES, OPS, PHASES

MAGIC = b"ZMONBOX\0"
VERSION = 4
RING_CAPACITY = 4096  # boundaries; a few minutes of 20 ms steps
MAX_GROUPS = 8
MAX_REPORT_KEYS = 4
TAIL_READ_BYTES = 16384  # how much of the tail is read
NONE = 15  # stands for "no op" and "no group"
UNKNOWN = -1
# The two words of a state add up to STATE_KEY + STATE_PRIME × state. A damaged bit, or a new time beside an old second
# word, does not change the sum by a multiple of the prime (except if the time is off by 78 hours to the nanosecond).
STATE_KEY = int.from_bytes(b"zmonbx", "little")
STATE_PRIME = 2**48 - 59
STATE_LIMIT = 1 << 14
PHASE_SHIFT, OP_SHIFT, GROUP_SHIFT = 3, 6, 10  # bit positions in a state; the activity is in the lowest bits

# Times of a boundary, in nanoseconds so far: self time by phase, then exposed time by op, then time in flight by op.
PHASE, EXPOSED, INFLIGHT = 0, len(PHASES), len(PHASES) + len(OPS)
NUM_TIMES = len(PHASES) + 2 * len(OPS)
# Counts of a boundary so far: calls by op, then bytes sent by op, then bytes received by op.
COUNT, SENT, RECEIVED = 0, len(OPS), 2 * len(OPS)
NUM_COUNTS = 3 * len(OPS)
# Amounts, which may be unknown. Those of the step come before the totals so far.
SAMPLES, LOOKUPS, NIC_SENT, NIC_RECEIVED = range(4)
NUM_AMOUNTS = 4

TURN, STEP = range(2)  # kinds of boundary

CRC = struct.Struct("<I")
PREFIX = struct.Struct("<8sIIQI")
# number, kind | step, time, steps, step ns, last step unix, last checkpoint unix, memory (allocated, reserved, peak),
# overhead, dropped, bytes to and from other hosts so far | amounts of the step, amounts so far | ns by activity that
# belong to no step | a bit for each gauge reported since the previous boundary, and the values of all | times | counts
HEAD = 15
EDGES = tuple(accumulate((HEAD, NUM_AMOUNTS, NUM_AMOUNTS, len(ACTIVITIES), 1, MAX_REPORT_KEYS, NUM_TIMES, NUM_COUNTS)))
BOUNDARY = struct.Struct(f"<Q{EDGES[4] - 1}q{MAX_REPORT_KEYS}d{NUM_TIMES + NUM_COUNTS}q")


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


def text(raw: bytes) -> str:
    """Decode a fixed-width field to text."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def field(value: str, size: int) -> bytes:
    """Encode text for a fixed-width field; it is never cut in the middle of a character."""
    return value.encode("utf-8", "replace")[: size - 1].decode("utf-8", "ignore").encode()


def _labels(raw: bytes) -> dict[str, str]:
    try:
        labels = json.loads(text(raw) or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError("its labels are not a JSON object of strings") from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("its labels are not a JSON object of strings")
    return labels


class Packed(NamedTuple):
    """The encoding of one value in a cell: its struct code, and the conversions to and from it."""

    code: str
    encode: Callable[[Any], Any] = int
    decode: Callable[[Any], Any] = int


def _text(size: int) -> Packed:
    return Packed(f"{size}s", lambda value: field(value, size), text)


_LONG, _INT = Packed("q"), Packed("i")
_UID = Packed("16s", bytes.fromhex, bytes.hex)
_MOMENT = Packed("q", lambda seconds: round(seconds * 1e9), lambda ns: ns * 1e-9)
_RESTARTS = Packed("i4x", lambda n: -1 if n is None else n, lambda n: None if n < 0 else n)  # 4 bytes are unused
_JOB_ID = Packed("64s", str.encode, text)  # it may fill its field, without a zero byte at the end
_BACKEND = Packed("32s", lambda name: field(name or "", 32), lambda raw: text(raw) or None)
_LABELS = Packed("1024s", lambda labels: field(json.dumps(labels), 1024), _labels)


@dataclass(frozen=True, slots=True)
class Identity:
    """The rank that wrote the box.

    The fields are those of the identity cell, in this order and with these encodings.
    """

    pid: Annotated[int, _LONG]
    run_uid: Annotated[str, _UID]
    start_ns: Annotated[int, _LONG]
    start_unix: Annotated[float, _MOMENT]
    launcher_pid: Annotated[int, _LONG]
    launcher_start: Annotated[int, _LONG]  # clock ticks after boot, as in /proc/<pid>/stat
    rank: Annotated[int, _INT]
    local_rank: Annotated[int, _INT]
    world_size: Annotated[int, _INT]
    local_world_size: Annotated[int, _INT]  # 0: unknown how many ranks share this host
    attempt: Annotated[int, _INT]
    restart_count: Annotated[int, _INT]
    max_restarts: Annotated[int | None, _RESTARTS]  # None: the launcher does not restart ranks
    job_id: Annotated[str, _JOB_ID]
    device: Annotated[str, _text(64)]
    backend: Annotated[str | None, _BACKEND]
    socket: Annotated[str, _text(256)]
    labels: Annotated[dict[str, str], _LABELS]


_IDENTITY: dict[str, Packed] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Identity, include_extras=True).items()
}
_DECODED = tuple(packed.decode for packed in _IDENTITY.values())


def packed_identity(identity: Identity) -> list[Any]:
    """Return the values of the identity cell."""
    return [packed.encode(getattr(identity, name)) for name, packed in _IDENTITY.items()]


def unpacked_identity(values: Sequence[Any]) -> Identity:
    """Decode the values of the identity cell; raises ValueError if they are invalid."""
    return Identity(*[decode(value) for decode, value in zip(_DECODED, values, strict=True)])


IDENTITY = Cell("".join(packed.code for packed in _IDENTITY.values()), 64)
# boundaries written, activity since, step since, the current step
PLACE = Cell("Q3q", IDENTITY.end)
REPORT = Cell("32sd" * MAX_REPORT_KEYS, PLACE.end)
WORDS = Cell("qB64s1024s", REPORT.end)  # unix time, kind, type, message
GROUPS = Cell("48si" * MAX_GROUPS, WORDS.end)  # name, size

LIVE = GROUPS.end
# Indices into the signed live words: two slots of (since, key + prime × state - since), then numbers with complements.
STATE_SLOTS = (0, 2)
ENTERED = 4  # the collective that the rank is in, or was in last
BEFORE = 6  # the collective before that: a rank with a wrong size may leave it before its peers notice the mismatch
SEQUENCE = 8  # the first sequence number; one for each group follows
NUM_LIVE = SEQUENCE + 2 * MAX_GROUPS
RING = LIVE + 8 * NUM_LIVE
BOUNDARY_SIZE = aligned(BOUNDARY.size + CRC.size)
FILE_SIZE = RING + RING_CAPACITY * BOUNDARY_SIZE

WORDS_KINDS = ("", *names.WORDS_KINDS)  # kind by number; 0: no last words

# A collective in one word: its bytes in the low bits, and above them op, group, low bits of the sequence, and a bit
# that tells whether it has a sequence.
LABEL_SHIFT = 44
MAX_BYTES = (1 << LABEL_SHIFT) - 1
LABEL_GROUP_SHIFT, LABEL_SEQUENCE_SHIFT = 4, 8
SEQUENCES = 1024  # the low bits hold the sequence modulo this; as a bit it means that there is a sequence


def state(activity: int, phase: int, op: int = NONE, group: int = NONE) -> int:
    """Pack activity, phase, op and group into 14 bits."""
    return activity | phase << PHASE_SHIFT | op << OP_SHIFT | group << GROUP_SHIFT


def unpacked(packed: int) -> tuple[int, int, int, int]:
    """Unpack activity, phase, op and group of a state."""
    return packed & 7, packed >> PHASE_SHIFT & 7, packed >> OP_SHIFT & 15, packed >> GROUP_SHIFT


def entered(word: int, counts: Sequence[int | None]) -> tuple[int, int, int, int]:
    """Unpack op, group, sequence and bytes of a collective.

    `counts` has the current count of each group, which gives the high bits of the sequence. Sequence 0 means that the
    collective has none, or that it is unknown.
    """
    label = word >> LABEL_SHIFT
    op, group, low = label & 15, label >> LABEL_GROUP_SHIFT & 15, label >> LABEL_SEQUENCE_SHIFT
    count = counts[group] if group < len(counts) else None
    if not low & SEQUENCES or count is None:
        return op, group, 0, word & MAX_BYTES
    latest = count + SEQUENCES // 2  # a collective that C++ issued is entered before it is counted
    return op, group, max(0, latest - (latest - low) % SEQUENCES), word & MAX_BYTES
