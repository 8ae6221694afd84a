"""The parts of a black box that writer and reader share: its words, states and numbers.

`versions.py` has the sizes and offsets of the cells, `zmon/schema/measures.py` the table of what is counted.

    prefix      magic, version, ring capacity, file size, seed    (never changes)
    cells       identity · place · report · losses · words · groups   (two slots each)
    live        the current state, the last two collectives, the sequence of each group: plain 64-bit words
    ring        the last 4,096 boundaries
    tail        who sent the signal that ends the rank, if that is known, and its stack; appended by signal handlers

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

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

from zmon.schema import measures, names
from zmon.schema.measures import AMOUNT_MEASURES

MAGIC = b"ZMONBOX\0"
RING_CAPACITY = 4096  # boundaries; 82 s of 20 ms steps
MAX_GROUPS = 8
MAX_REPORT_KEYS = 4
GROUP_NAME_BYTES, REPORT_KEY_BYTES = 48, 32  # longer names are cut
TAIL_READ_BYTES = 16384  # how much of the tail is read
UNKNOWN = measures.UNKNOWN
FINITE = -2  # in place of the step since which losses are not finite
NONE = 15  # stands for "no op" and "no group"
# The two words of a state add up to STATE_KEY + STATE_PRIME × state. A damaged bit, or a new time beside an old second
# word, does not change the sum by a multiple of the prime (except if the time is off by 78 hours to the nanosecond).
STATE_KEY = int.from_bytes(b"zmonbx", "little")
STATE_PRIME = 2**48 - 59
STATE_LIMIT = 1 << 14
PHASE_SHIFT, OP_SHIFT, GROUP_SHIFT = 3, 6, 10  # bit positions in a state; the activity is in the lowest bits

# A boundary is a row of numbers of 8 bytes. First come the numbers at these positions. REPORTED has a bit for each
# gauge that was reported since the previous boundary, and the values of all gauges begin at VALUES. Then come the
# totals of all measures so far, and last the amounts of the step itself, both in the order of `zmon.schema.measures`.
NUMBER, KIND, STEP_NUMBER, TIME, REPORTED, VALUES = range(6)
FIRST = VALUES + MAX_REPORT_KEYS
SLOTS = {name: slice(FIRST + slots.start, FIRST + slots.stop) for name, slots in measures.SLOTS.items()}
STEPS, STEP_NS, LAST_STEP, LAST_CHECKPOINT, MEMORY, OVERHEAD, DROPPED = (
    SLOTS[name].start
    for name in ("steps", "step", "last_step", "last_checkpoint", "memory_allocated", "overhead", "dropped")
)
NUM_MEMORY = 3  # allocated, reserved, peak
BETWEEN = SLOTS["between"]
# Amounts, which may be unknown: their totals so far, and those of the step. An amount of a step is at most MAX_AMOUNT;
# totals count on from 0 beyond it, because a fast device does 2^62 operations within hours.
AMOUNTS = slice(SLOTS[AMOUNT_MEASURES[0].name].start, SLOTS[AMOUNT_MEASURES[-1].name].stop)
STEP_AMOUNTS = slice(FIRST + measures.NUM_TOTALS, FIRST + measures.NUM_SLOTS)
NUM_AMOUNTS = len(AMOUNT_MEASURES)
SAMPLES, FLOPS, NIC_SENT, NIC_RECEIVED = (
    SLOTS[name].start - AMOUNTS.start for name in ("samples", "flops", "nic_sent", "nic_received")
)
NUM_DECLARED = NIC_SENT  # the first amounts, which a job can declare
MAX_AMOUNT = (1 << 62) - 1
# Times, in nanoseconds so far: self time by phase, then exposed time by op, then time in flight by op.
TIMES = slice(SLOTS["phase"].start, SLOTS["inflight"].stop)
NUM_TIMES = TIMES.stop - TIMES.start
PHASE, EXPOSED, INFLIGHT = (SLOTS[name].start - TIMES.start for name in ("phase", "exposed", "inflight"))
# Counts so far: calls by op, then bytes sent by op, then bytes received by op.
COUNTS = slice(SLOTS["calls"].start, SLOTS["received"].stop)
NUM_COUNTS = COUNTS.stop - COUNTS.start
COUNT, SENT, RECEIVED = (SLOTS[name].start - COUNTS.start for name in ("calls", "sent", "received"))

TURN, STEP = range(2)  # kinds of boundary: at a change of activity, and at the end of a step

BOUNDARY = struct.Struct(f"<{VALUES}q{MAX_REPORT_KEYS}d{measures.NUM_SLOTS}q")
CRC = struct.Struct("<I")
PREFIX = struct.Struct("<8sIIQI")
# Indices into the signed live words: two slots of (since, key + prime × state - since), then numbers with complements.
STATE_SLOTS = (0, 2)
ENTERED = 4  # the collective that the rank is in, or was in last
BEFORE = 6  # the collective before that: a rank with a wrong size may leave it before its peers notice the mismatch
SEQUENCE = 8  # the first sequence number; one for each group follows
NUM_LIVE = SEQUENCE + 2 * MAX_GROUPS
LIVE = struct.Struct(f"<{NUM_LIVE}q")

# Begins the tail if the sender is known: its pid follows, then ` at ` and the unix time.
SENDER_LINE = b"SIGTERM from process "
TRACE = b"Stack (most recent call first):"  # the first line of a stack that faulthandler writes

WORDS_KINDS = ("", *names.WORDS_KINDS)  # kind by number; 0: no last words

# A collective in one word: its bytes in the low bits, and above them op, group, low bits of the sequence, and a bit
# that tells whether it has a sequence.
LABEL_SHIFT = 44
MAX_BYTES = (1 << LABEL_SHIFT) - 1
LABEL_GROUP_SHIFT, LABEL_SEQUENCE_SHIFT = 4, 8
SEQUENCES = 1024  # the low bits hold the sequence modulo this; as a bit it means that there is a sequence


def checked(packing: struct.Struct, raw: bytes, seed: int, offset: int = 0) -> tuple[Any, ...] | None:
    """Unpack the values at `offset`; return None if the checksum behind them is wrong."""
    end = offset + packing.size
    if len(raw) < end + CRC.size or CRC.unpack_from(raw, end)[0] != crc32(raw[offset:end], seed):
        return None
    return packing.unpack_from(raw, offset)


def state(activity: int, phase: int, op: int = NONE, group: int = NONE) -> int:
    """Pack activity, phase, op and group into 14 bits."""
    return activity | phase << PHASE_SHIFT | op << OP_SHIFT | group << GROUP_SHIFT


class PlaceInStep(NamedTuple):
    """Activity, phase, op and group of a rank, as numbers; op and group are NONE outside of collectives."""

    activity: int
    phase: int
    op: int
    group: int


def unpack_state(packed: int) -> PlaceInStep:
    """Unpack a state; the reverse of `state`."""
    return PlaceInStep(packed & 7, packed >> PHASE_SHIFT & 7, packed >> OP_SHIFT & 15, packed >> GROUP_SHIFT)


class Collective(NamedTuple):
    """A collective that a rank has entered; op and group are numbers, NONE if unknown."""

    op: int
    group: int
    sequence: int  # in its group; 0: it has none, or it is unknown
    num_bytes: int  # sent and received


def unpack_collective(word: int, counts: Sequence[int | None]) -> Collective:
    """Unpack a collective; `counts` has the current count of each group, which gives the high bits of the sequence."""
    label = word >> LABEL_SHIFT
    op, group, low = label & 15, label >> LABEL_GROUP_SHIFT & 15, label >> LABEL_SEQUENCE_SHIFT
    count = counts[group] if group < len(counts) else None
    if not low & SEQUENCES or count is None:
        return Collective(op, group, 0, word & MAX_BYTES)
    latest = count + SEQUENCES // 2  # a collective that C++ issued is entered before it is counted
    return Collective(op, group, max(0, latest - (latest - low) % SEQUENCES), word & MAX_BYTES)
