"""The launches and steps of a job, from the events that `bench.recovery.job` writes. Times are unix seconds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

_RECENT_STEPS = 200  # the usual duration of a step is their median


class FinishedStep(NamedTuple):
    """A step that a rank has finished."""

    end: float
    number: int


@dataclass
class Launch:
    """One start of one rank, with the times of the events that it reached."""

    began: float
    pid: int
    imported: float | None = None  # torch
    ready: float | None = None  # for its first step
    steps: list[FinishedStep] = field(default_factory=list)


class Training:
    """The launches of all ranks until now, oldest first."""

    def __init__(self) -> None:
        self.ranks: defaultdict[int, list[Launch]] = defaultdict(list)

    def add(self, rank: int, line: str) -> None:
        """Add one line of a rank's events."""
        event, seconds, number = line.split()
        launches = self.ranks[rank]
        match event:
            case "began":
                launches.append(Launch(float(seconds), pid=int(number)))
            case "imported":
                launches[-1].imported = float(seconds)
            case "ready":
                launches[-1].ready = float(seconds)
            case "step":
                launches[-1].steps.append(FinishedStep(float(seconds), int(number)))

    @property
    def began(self) -> float | None:
        """The time at which rank 0 was ready for its first step."""
        return next((launch.ready for launch in self.ranks[0] if launch.ready), None)

    @property
    def newest(self) -> FinishedStep:
        """The step that rank 0 finished last; step 0 if there is none."""
        none = FinishedStep(0.0, 0)
        return next((launch.steps[-1] for launch in reversed(self.ranks[0]) if launch.steps), none)

    @property
    def usual_seconds(self) -> float:
        """The median duration of the newest steps of rank 0 in its newest launch."""
        steps = self.ranks[0][-1].steps[-_RECENT_STEPS:]
        return median(after.end - before.end for before, after in pairwise(steps))

    def reached(self, number: int) -> float | None:
        """Return the time at which rank 0 first finished this step, or None if it has not."""
        ends = (step.end for launch in self.ranks[0] for step in launch.steps if step.number == number)
        return min(ends, default=None)

    def relaunched(self, after: float) -> list[Launch]:
        """Return each rank's first launch that began after that time and finished a step; empty if none did."""
        relaunches = []
        for launches in self.ranks.values():
            relaunches += [launch for launch in launches if launch.began > after and launch.steps][:1]
        return relaunches

    def num_launches(self, after: float) -> int:
        """Return how many launches of rank 0 began after that time."""
        return sum(launch.began > after for launch in self.ranks[0])
