"""Measure the lifetime of each job of a stage, to check the sum of its time account (test_played.py)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Lifetime:
    """The lifetime of one job in unix seconds, measured at its lowest rank. Two readings of the clock bound its end."""

    start: float  # of the rank, from its box
    was_alive: bool  # False: the rank had died before the job was ended
    end_begun: float  # just before the job was ended
    end_done: float  # just after the job was ended


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
    recorder: RecordingStage

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)

    def end(self) -> None:
        """End the job and record its lifetime."""
        job_id = self.job.spec.job_id
        lowest = min(self.recorder.stage.ranks(job_id).values(), key=lambda rank: rank.rank, default=None)
        end_begun = time.time()
        self.job.end()
        lifetimes = self.recorder.lifetimes
        if lowest is not None and job_id not in lifetimes:  # a job may be ended twice; the first time counts
            was_alive = lowest.alive and not lowest.gone_seconds
            lifetimes[job_id] = Lifetime(lowest.start, was_alive, end_begun, time.time())
