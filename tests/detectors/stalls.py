"""Run the stall detector on ranks, and build ranks that stall."""

from tests.build import rank_state, snapshot, waiting
from zmon.detectors.stall import Stall
from zmon.schema.rank import InFlight

STALL = Stall()


def detect(*ranks, **changes):
    return next(iter(STALL.detect(snapshot(*ranks, **changes))), None)


def others(but, state=waiting):
    """Return the other three ranks."""
    return [state(rank) for rank in range(4) if rank != but]


def stopped(rank, seconds=2.0, **changes):
    return rank_state(rank, process_state="T", stopped_seconds=seconds, step_seconds=seconds, **changes)


def outside(rank, phase="forward", **changes):
    """Return a rank in no collective, five seconds after its last step."""
    return waiting(rank, in_flight=None, phase=phase, **changes)


def inside(rank, op="all_reduce", sequence=301, num_bytes=4096, group="0", seconds=5.0, **changes):
    """Return a rank that has been in this collective for five seconds."""
    return waiting(rank, seconds, in_flight=InFlight(op, group, sequence, num_bytes, seconds), **changes)
