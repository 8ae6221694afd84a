"""The launches and steps of a job of `bench.recovery.job`, from the events of its ranks. Times are unix seconds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

_RECENT_STEPS = 200  # over which the usual length of a step is computed


@dataclass
class Launch:
    """One start of one rank, with the times of the events that it reached."""

    began: float
    pid: int
    imported: float | None = None  # torch
    ready: float | None = None  # for its first step
    steps: list[tuple[float, int]] = field(default_factory=list)  # end and number of each finished step


class Training:
    """The launches of all ranks until now, oldest first."""

    def __init__(self) -> None:
        self.ranks: defaultdict[int, list[Launch]] = defaultdict(list)

    def add(self, rank: int, line: str) -> None:
        """Add one line of a rank's events."""
        what, seconds, number = line.split()
        launches = self.ranks[rank]
        if what == "began":
            launches.append(Launch(float(seconds), int(number)))
        elif what == "step":
            launches[-1].steps.append((float(seconds), int(number)))
        else:  # `imported` or `ready`
            setattr(launches[-1], what, float(seconds))

    @property
    def began(self) -> float | None:
        """The time at which rank 0 was ready for its first step."""
        return next((launch.ready for launch in self.ranks[0] if launch.ready), None)

    @property
    def newest(self) -> tuple[float, int]:
        """End and number of the step that rank 0 finished last; zeros if there is none."""
        return next((launch.steps[-1] for launch in reversed(self.ranks[0]) if launch.steps), (0.0, 0))

    @property
    def usual_seconds(self) -> float:
        """The median length of the newest steps of rank 0 in its newest launch."""
        steps = self.ranks[0][-1].steps[-_RECENT_STEPS:]
        return median(after[0] - before[0] for before, after in pairwise(steps))

    def reached(self, number: int) -> float | None:
        """Return the time at which rank 0 first finished this step, or None if it has not."""
        return min((end for launch in self.ranks[0] for end, step in launch.steps if step == number), default=None)

    def relaunched(self, after: float) -> list[Launch]:
        """Return each rank's first launch that began after that time and finished a step; empty if none did."""
        relaunches = []
        for launches in self.ranks.values():
            relaunches += [launch for launch in launches if launch.began > after and launch.steps][:1]
        return relaunches

    def num_launches(self, after: float) -> int:
        """Return how many launches of rank 0 began after that time."""
        return sum(launch.began > after for launch in self.ranks[0])
