"""Pauses of a job: the place where its ranks stand still, and the pauses that ended by themselves. Frozen data only."""

from __future__ import annotations

import msgspec

from zmon.schema.names import SILENCE


class Place(msgspec.Struct, frozen=True, order=True):
    """The place in the job's code where a rank stands still."""

    phase: str  # the phase, the activity, or the collective that the rank is in
    frame: str  # the innermost frame of the job's own code, such as `read() at loader.py:40`

    def __str__(self) -> str:
        return f"{self.phase}, {self.frame}"


class HealedPause(msgspec.Struct, frozen=True):
    """The pauses at one place that ended by themselves: all ranks went on."""

    place: Place
    longest_seconds: float
    number: int  # of these pauses
    last_time: float  # unix seconds on the hub's host


class Silence(msgspec.Struct, frozen=True):
    """A stall that nothing proves but the lack of progress."""

    seconds: float  # since the last progress of any rank
    critical_seconds: float  # the finding is critical if the job stands still for this long
    places: tuple[Place, ...]  # where the awaited ranks are; empty: unknown
    healed_seconds: float | None  # the longest pause that healed at that place; None: none is known
    reason: str = ""  # why the finding has its severity; its summary contains this
    proof: str = SILENCE  # STACKS: nothing has changed in the awaited ranks for as long as the severity needs
