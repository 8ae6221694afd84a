"""What the stall detector says of some ranks, and ranks that stall."""

from tests.build import rank_state, snapshot, waiting
from zmon.detectors.stall import Stall

STALL = Stall()


def detect(*ranks, **changes):
    return next(iter(STALL.detect(snapshot(*ranks, **changes))), None)


def others(but, state=waiting):
    """The other three ranks."""
    return [state(rank) for rank in range(4) if rank != but]


def stopped(rank, seconds=2.0, **changes):
    return rank_state(rank, process_state="T", stopped_seconds=seconds, step_seconds=seconds, **changes)
