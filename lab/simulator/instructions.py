"""The instructions of a rank's script to the world: compute, enter a collective, end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.simulator.composition import Strike
from lab.simulator.endings import ProcessEnd

BYTES = 4096  # of a collective


@dataclass(frozen=True)
class Spend:
    """Be in a phase for some seconds."""

    phase: str
    seconds: float


@dataclass(frozen=True)
class Enter:
    """Call a collective and, unless the device is a GPU, wait until it is done."""

    op: str
    group: str
    members: Sequence[int]
    num_bytes: int = BYTES
    waits: bool = False  # also on a GPU


@dataclass(frozen=True)
class Sync:
    """Wait until all issued collectives are done."""


@dataclass(frozen=True)
class Meet:
    """Wait for all ranks of the launch, as in a rendezvous."""


@dataclass(frozen=True)
class Turn:
    """Turn to another activity."""

    activity: str


@dataclass(frozen=True)
class EndStep:
    """End a step."""


@dataclass(frozen=True)
class Leave:
    """End the process by its own doing."""

    ending: ProcessEnd


@dataclass(frozen=True)
class Sleep:
    """Be in state D, in which a process waits for a disk, for ever."""

    phase: str


@dataclass(frozen=True)
class Call:
    """Tell the world that a fault strikes; one from outside takes effect `after` seconds from now."""

    strike: Strike
    after: float = 0.0


Instruction = Spend | Enter | Sync | Meet | Turn | EndStep | Leave | Sleep | Call
