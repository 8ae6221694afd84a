"""One step of the whole job, its ranks side by side, and what a step is like while the job is well.

Frozen data, and what it says of a rank. Seconds and bytes; a column has a place for each rank, 0 … world_size − 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True, slots=True)
class AlignedStep:
    """What every rank did in one step. A phase or op that a rank did not have is 0 in its column; others are absent."""

    step: int
    stands_for: int  # steps since the aligned one before it: where steps are short not each is asked for
    seconds: float  # as the last arriver saw it
    last: int  # the rank that waited least: one that does something else first, and begins its step late, is the last
    self_seconds: tuple[float, ...]
    phases: dict[str, tuple[float, ...]]
    exposed: dict[str, tuple[float, ...]]  # by op
    sent_bytes: dict[str, tuple[int, ...]]
    received_bytes: dict[str, tuple[int, ...]]
    samples: tuple[int | None, ...]
    lookups: tuple[int | None, ...]
    mean: AlignedStep | None = None  # of the steps it stands for, so that chance has less of a part; None: itself

    @property
    def exposed_seconds(self) -> float:
        """In all ops together, as the last arriver saw them."""
        return self.exposed_of(self.last)

    def exposed_of(self, rank: int) -> float:
        """How long a rank waited in all ops together."""
        return sum(seconds[rank] for seconds in self.exposed.values())

    def seconds_of(self, rank: int) -> float:
        """How long the step was for a rank: one that did something else first begins it late."""
        return self.self_seconds[rank] + self.exposed_of(rank)


@dataclass(frozen=True, slots=True)
class StepWindow:
    """What a step was like over some seconds of the job: medians over its steps."""

    num_steps: int  # those that were not asked for included
    seconds: float
    self_seconds: float  # of the median rank
    data_seconds: float  # of the median rank
    exposed_seconds: float  # as the last arriver saw it
    samples: int | None  # of all ranks in a step: another number of them is another kind of step


Baseline = StepWindow  # one of when the job was well


def handed_in(steps: Sequence[AlignedStep]) -> dict[str, float]:
    """By op, the bytes that a rank hands in in a step."""
    ops = sorted({op for step in steps for op in step.sent_bytes})
    return {op: fmean(fmean(step.sent_bytes.get(op, (0,))) for step in steps) for op in ops}
