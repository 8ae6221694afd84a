"""The end of a launch that a fault ended, as it is compared with the ends of other launches. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchEnd:
    """The end of one launch that a fault ended. Times are unix seconds by the hub's clock, unless noted."""

    attempt: int
    start: float  # the newest start of its ranks, by the clock of that rank's host
    began: float
    ended: float
    step: int  # the furthest step of its ranks
    steps: int  # the number of steps that it finished
    saved: bool  # it wrote a checkpoint
    cause: str
    ranks: tuple[int, ...]  # the culprits; empty if none is known
    hosts: tuple[str, ...]  # of the culprits
    error: str  # the exception of the first culprit in one line, or its exit status; "" if unknown
