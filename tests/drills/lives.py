"""How long each job of a stage lived, as seen from outside: by the wall clock, before and after it was ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Life:
    """Of one job. Unix seconds; the first rank leads."""

    began: float  # when its box says that it began
    alive: bool  # as it was ended: else it died some time before
    before: float
    after: float


@dataclass
class Watched:
    """A stage that notes the lives of its jobs, and is the stage in all else."""

    stage: Any
    lives: dict[str, Life] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stage, name)

    def start(self, spec: Any) -> Any:
        """Start a job, and note its life once it is ended."""
        return _Job(self.stage.start(spec), self)


@dataclass
class _Job:
    job: Any
    watched: Watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self.job, name)

    def end(self) -> None:
        """End it, and note when."""
        job_id = self.job.spec.job_id
        lead = min(self.watched.stage.ranks(job_id).values(), key=lambda r: r.rank, default=None)
        before = time.time()
        self.job.end()
        if lead is not None and job_id not in self.watched.lives:
            self.watched.lives[job_id] = Life(lead.start, lead.alive and not lead.gone_seconds, before, time.time())
