"""The form of the rows of docs/slowness.md: what a job does, and what a detector says about it, or that it is quiet.

The rows are in `slow_ranks.py`, `slow_hosts.py`, `uneven_work.py`, `slower_jobs.py` and `table.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zmon.detectors import ALL, Detector
from zmon.detectors.suppression import suppress
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot


@dataclass(frozen=True)
class Case:
    """One thing that a job does, and the one finding that is due."""

    what: str
    job: Callable[..., Snapshot]
    cause: str | None = None  # None: quiet
    culprits: tuple[int | str, ...] = ()  # ranks, or hosts without a rank
    severity: str = "warning"
    says: tuple[str, ...] = ()  # in its summary, detail or evidence
    hides: str = "\n"  # in none of them; the default is in no text
    lost: float | None = None  # share of the GPU time; None: any
    over: Sequence[Any] = ()  # arguments of `job`; the finding is the same for each of them

    def jobs(self) -> list[Snapshot]:
        """Return the jobs that do this."""
        return [self.job(argument) for argument in self.over] if self.over else [self.job()]


@dataclass(frozen=True)
class Resolution:
    """A job in which a finding is open, what happens then, and whether the finding may resolve."""

    what: str
    opened: Callable[[], Snapshot]
    now: Callable[..., Snapshot]
    resolves: bool
    over: Sequence[Any] = ()  # arguments of `now`


@dataclass(frozen=True)
class Section:
    """The rows of one detector; those of None are about what all detectors together report."""

    title: str
    text: str
    detector: Detector | None
    cases: Sequence[Case]
    resolutions: Sequence[Resolution] = ()


def reported(detector: Detector | None, job: Snapshot) -> list[Finding]:
    """Return the findings of a detector, or those that remain of all detectors."""
    if detector is not None:
        return list(detector.detect(job))
    remaining = suppress({each.name: each.detect(job) for each in ALL}).findings
    return [finding for findings in remaining.values() for finding in findings]
