"""The classes of the C edge: each is a type of `native` with the Python class behind it.

This module fails to import if the package was built without a compiler.
"""

from __future__ import annotations

from zmon.box import layout
from zmon.box.versions import CURRENT
from zmon.probe import ledger
from zmon.probe.edge import native
from zmon.probe.ledger import Ledger
from zmon.probe.rank import OP_NUMBER, OTHER, PHASE_NUMBER, TRAIN, RankTimeline
from zmon.probe.samples import SampleCounter
from zmon.schema.names import OPS, PHASES, SAMPLES_SOURCES


class CSampleCounter(native.SampleCounter, SampleCounter):
    """The samples of the current step."""


class CLedger(native.Ledger, Ledger):
    """The totals of one rank."""

    make_samples = CSampleCounter


class CTimeline(native.Timeline, RankTimeline):
    """The timeline of one rank."""


# Numbers of the layout by their names in C, in lower case; see box.h.
_OF_LAYOUT = (
    "NONE", "MAX_GROUPS", "STATE_KEY", "STATE_PRIME", "LABEL_SHIFT", "LABEL_GROUP_SHIFT", "LABEL_SEQUENCE_SHIFT",
    "SEQUENCE", "SEQUENCES", "ENTERED", "BEFORE", "MAX_BYTES", "PHASE_SHIFT", "OP_SHIFT", "GROUP_SHIFT",
    "RING_CAPACITY", "NUMBER", "KIND", "STEP_NUMBER", "TIME", "REPORTED", "VALUES", "STEPS", "STEP_NS", "LAST_STEP",
    "OVERHEAD", "NUM_AMOUNTS", "NUM_DECLARED", "NUM_TIMES", "EXPOSED", "INFLIGHT", "SENT", "RECEIVED", "SAMPLES",
    "FLOPS", "MAX_AMOUNT", "UNKNOWN",
)  # fmt: skip
_PARTS = ("STEP_AMOUNTS", "AMOUNTS", "TIMES", "COUNTS")

native.install(
    {name.lower(): getattr(layout, name) for name in _OF_LAYOUT}
    | {name.lower(): getattr(layout, name).start for name in _PARTS}
    | {
        "place_offset": CURRENT.place.offset,
        "place_slot": CURRENT.place.slot_size,
        "place_bytes": CURRENT.place.struct.size,
        "ring": CURRENT.ring,
        "ring_slot": CURRENT.boundary_size,
        "boundary_bytes": layout.BOUNDARY.size,
        "num_values": layout.MAX_REPORT_KEYS,
        "is_step": layout.STEP,
        "memory_interval_ns": ledger.MEMORY_INTERVAL_NS,
        "interface_interval_ns": ledger.INTERFACE_INTERVAL_NS,
        "num_phases": len(PHASES),
        "num_ops": len(OPS),
        "other": OTHER,
        "forward": PHASE_NUMBER["forward"],
        "backward": PHASE_NUMBER["backward"],
        "optimizer": PHASE_NUMBER["optimizer"],
        "train": TRAIN,
        "send": OP_NUMBER["send"],
        "recv": OP_NUMBER["recv"],
    },
    (RankTimeline, Ledger, SampleCounter),
    SAMPLES_SOURCES,
)
