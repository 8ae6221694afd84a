"""What stands where in a black box: the one layout that writer and reader share.

    prefix      magic, version, ring capacity, file size, seed    (never changes)
    cells       identity · place · report · words · groups         (each twice, by turns)
    live        what the rank is doing this moment, the last two collectives, sequence per group: plain 64-bit words
    ring        the last 4,096 boundaries
    tail        what the signal handler appends when the rank is terminated

A **cell** has two slots written by turns, each `counter, values…, crc32`: a writer that is stopped in the
middle of one leaves the other intact, and a reader takes the valid slot with the larger counter.

The **live** words are written at every change of phase and collective, so they cost no packing and no checksum: a
state stands beside the time since when in two words that check each other, two such slots by turns; a number beside its
complement. They are stored whole (aligned 64-bit stores), numbers first, the state that speaks of them last.

A **boundary** is written where a step ends and where the rank turns to another activity. It holds everything so far;
a step is the difference between its own boundary and the one before, so nothing is added up twice. It carries its own
number and a crc32, so a torn or damaged one is never mistaken for a whole one on any processor. Every crc32 begins at
the box's own random seed: what strayed in from another box does not check.

Integers are little-endian; times CLOCK_MONOTONIC nanoseconds unless called unix; -1 is "unknown".
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
TAIL_READ_BYTES = 16384  # of what a terminated rank left behind its box
NONE = 15  # "no op", "no group"
UNKNOWN = -1
# A state's two words add up to a key and so many times a prime as the state has for a number. A damaged bit, or a new
# time beside an old second word, adds no multiple of the prime (but a time that is off by 78 hours to the nanosecond).
STATE_KEY = int.from_bytes(b"zmonbx", "little")
STATE_PRIME = 2**48 - 59
STATE_LIMIT = 1 << 14
PHASE_SHIFT, OP_SHIFT, GROUP_SHIFT = 3, 6, 10  # of a state; the activity stands below

# Times of a boundary, nanoseconds so far: by phase, then by op exposed, then by op in flight.
PHASE, EXPOSED, INFLIGHT = 0, len(PHASES), len(PHASES) + len(OPS)
NUM_TIMES = len(PHASES) + 2 * len(OPS)
# Its counts so far: by op how often, then bytes sent, then bytes received.
COUNT, SENT, RECEIVED = 0, len(OPS), 2 * len(OPS)
NUM_COUNTS = 3 * len(OPS)
# Amounts: known or not. Those of the step stand before those so far.
SAMPLES, LOOKUPS, NIC_SENT, NIC_RECEIVED = range(4)
NUM_AMOUNTS = 4

TURN, STEP = range(2)  # kinds of boundary

CRC = struct.Struct("<I")
PREFIX = struct.Struct("<8sIIQI")
# number, kind | step, time, steps, step ns, last step unix, last checkpoint unix, memory (allocated, reserved, peak),
# overhead, dropped, bytes to and from other hosts so far | amounts of the step, amounts so far | ns by activity that
# belong to no step | which gauges were reported since the one before, a bit each, and all values | times | counts
HEAD = 15
EDGES = tuple(accumulate((HEAD, NUM_AMOUNTS, NUM_AMOUNTS, len(ACTIVITIES), 1, MAX_REPORT_KEYS, NUM_TIMES, NUM_COUNTS)))
BOUNDARY = struct.Struct(f"<Q{EDGES[4] - 1}q{MAX_REPORT_KEYS}d{NUM_TIMES + NUM_COUNTS}q")


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


def text(raw: bytes) -> str:
    """A fixed-width field as text."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def field(value: str, size: int) -> bytes:
    """Text cut to a fixed-width field, never in the middle of a character."""
    return value.encode("utf-8", "replace")[: size - 1].decode("utf-8", "ignore").encode()


def _labels(raw: bytes) -> dict[str, str]:
    try:
        labels = json.loads(text(raw) or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError("labels that are none") from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels that are none")
    return labels


class Packed(NamedTuple):
    """How a value of the rank stands in a cell: its struct code, and what becomes of it on the way in and out."""

    code: str
    encode: Callable[[Any], Any] = int
    decode: Callable[[Any], Any] = int


def _text(size: int) -> Packed:
    return Packed(f"{size}s", lambda value: field(value, size), text)


_LONG, _INT = Packed("q"), Packed("i")
_UID = Packed("16s", bytes.fromhex, bytes.hex)
_MOMENT = Packed("q", lambda seconds: round(seconds * 1e9), lambda ns: ns * 1e-9)
_RESTARTS = Packed("i4x", lambda n: -1 if n is None else n, lambda n: None if n < 0 else n)  # 4 bytes are unused
_JOB_ID = Packed("64s", str.encode, text)  # it may fill its place
_BACKEND = Packed("32s", lambda name: field(name or "", 32), lambda raw: text(raw) or None)
_LABELS = Packed("1024s", lambda labels: field(json.dumps(labels), 1024), _labels)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who wrote the box. This is the field table of its cell: what stands there, in which order, and how."""

    pid: Annotated[int, _LONG]
    run_uid: Annotated[str, _UID]
    start_ns: Annotated[int, _LONG]
    start_unix: Annotated[float, _MOMENT]
    launcher_pid: Annotated[int, _LONG]
    launcher_start: Annotated[int, _LONG]  # clock ticks after boot, as in /proc/<pid>/stat
    rank: Annotated[int, _INT]
    local_rank: Annotated[int, _INT]
    world_size: Annotated[int, _INT]
    local_world_size: Annotated[int, _INT]  # 0: nobody says how many ranks share this host
    attempt: Annotated[int, _INT]
    restart_count: Annotated[int, _INT]
    max_restarts: Annotated[int | None, _RESTARTS]  # None: no launcher that restarts
    job_id: Annotated[str, _JOB_ID]
    device: Annotated[str, _text(64)]
    backend: Annotated[str | None, _BACKEND]
    socket: Annotated[str, _text(256)]
    labels: Annotated[dict[str, str], _LABELS]


_IDENTITY: dict[str, Packed] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Identity, include_extras=True).items()
}
_DECODED = tuple(packed.decode for packed in _IDENTITY.values())


def packed_identity(who: Identity) -> list[Any]:
    """The values of the identity cell."""
    return [packed.encode(getattr(who, name)) for name, packed in _IDENTITY.items()]


def unpacked_identity(values: Sequence[Any]) -> Identity:
    """Who wrote them. Raises ValueError where they are no identity."""
    return Identity(*[decode(value) for decode, value in zip(_DECODED, values, strict=True)])


IDENTITY = Cell("".join(packed.code for packed in _IDENTITY.values()), 64)
# boundaries written, activity since, step since, the step it works on
PLACE = Cell("Q3q", IDENTITY.end)
REPORT = Cell("32sd" * MAX_REPORT_KEYS, PLACE.end)
WORDS = Cell("qB64s1024s", REPORT.end)  # unix time, kind, type, message
GROUPS = Cell("48si" * MAX_GROUPS, WORDS.end)  # name, size

LIVE = GROUPS.end
# As indices of signed words: two slots of (since, key + prime × state - since), then numbers with their complements.
STATE_SLOTS = (0, 2)
ENTERED = 4  # the collective that it is in, or was in last
BEFORE = 6  # the one before: who brings another size than its peers may be through before they find out
SEQUENCE = 8  # of each group
NUM_LIVE = SEQUENCE + 2 * MAX_GROUPS
RING = LIVE + 8 * NUM_LIVE
BOUNDARY_SIZE = aligned(BOUNDARY.size + CRC.size)
FILE_SIZE = RING + RING_CAPACITY * BOUNDARY_SIZE

WORDS_KINDS = ("", *names.WORDS_KINDS)  # by number; 0: it said nothing

# A collective in one word: its bytes, and above them op, group, the low bits of its sequence, and whether it has one.
LABEL_SHIFT = 44
MOST_BYTES = (1 << LABEL_SHIFT) - 1
LABEL_GROUP_SHIFT, LABEL_SEQUENCE_SHIFT = 4, 8
SEQUENCES = 1024  # the low bits; as a bit: it has one


def state(activity: int, phase: int, op: int = NONE, group: int = NONE) -> int:
    """What the rank is doing, in 14 bits."""
    return activity | phase << PHASE_SHIFT | op << OP_SHIFT | group << GROUP_SHIFT


def unpacked(packed: int) -> tuple[int, int, int, int]:
    """Activity, phase, op and group of a state."""
    return packed & 7, packed >> PHASE_SHIFT & 7, packed >> OP_SHIFT & 15, packed >> GROUP_SHIFT


def entered(word: int, counts: Sequence[int | None]) -> tuple[int, int, int, int]:
    """Op, group, sequence and bytes; `counts`: what each group has come to by now, which tells the sequence's rest.

    Sequence 0: it has none, or that is not known.
    """
    label = word >> LABEL_SHIFT
    op, group, low = label & 15, label >> LABEL_GROUP_SHIFT & 15, label >> LABEL_SEQUENCE_SHIFT
    count = counts[group] if group < len(counts) else None
    if not low & SEQUENCES or count is None:
        return op, group, 0, word & MOST_BYTES
    latest = count + SEQUENCES // 2  # one that C++ issued is entered before it is counted
    return op, group, max(0, latest - (latest - low) % SEQUENCES), word & MOST_BYTES
