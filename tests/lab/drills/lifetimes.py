"""Record the lifetime of each job of a stage. Its end is between two readings of the wall clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Lifetime:
    """The lifetime of one job in unix seconds, measured at its lowest rank."""

    began: float  # start of the rank, from its box
    alive: bool  # False: the rank had died before the job was ended
    before: float  # just before the job was ended
    after: float  # just after the job was ended


@dataclass
class RecordingStage:
    """A stage that also records the lifetimes of its jobs."""

    stage: Any
    lifetimes: dict[str, Lifetime] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)

    def start(self, spec: Any) -> Any:
        """Start a job; its lifetime is recorded once it is ended."""
        return _Job(self.stage.start(spec), self)


@dataclass
class _Job:
    """A job of a stage, which records its lifetime when it is ended."""

    job: Any
    stage: RecordingStage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)

    def end(self) -> None:
        """End the job and record its lifetime."""
        job_id = self.job.spec.job_id
        lowest = min(self.stage.stage.ranks(job_id).values(), key=lambda rank: rank.rank, default=None)
        before = time.time()
        self.job.end()
        lifetimes = self.stage.lifetimes
        if lowest is not None and job_id not in lifetimes:
            alive = lowest.alive and not lowest.gone_seconds
            lifetimes[job_id] = Lifetime(lowest.start, alive, before, time.time())
