"""The classes of the probe whose hot methods are in C.

Each class inherits from its type in `native` first, and has the other methods of its Python class. This module cannot
be imported if the package was built without a compiler.
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
    """Counts the samples of the current step, in C."""


class CLedger(native.Ledger, Ledger):
    """The totals of one rank, in C."""

    make_samples = CSampleCounter  # the class of the counter that a ledger makes


class CTimeline(native.Timeline, RankTimeline):
    """The timeline of one rank, in C."""


def _layout_numbers() -> dict[str, int]:
    """Return every number of the layout, and the start of every slice, by name in lower case; box.h selects from it."""
    numbers = {name.lower(): value for name, value in vars(layout).items() if isinstance(value, int | slice)}
    return {name: value.start if isinstance(value, slice) else value for name, value in numbers.items()}


native.install(
    _layout_numbers()
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
