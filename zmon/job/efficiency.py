"""The time categories of a step and of a job; they sum to the duration.

In a synchronous step the critical rank decides: the one that arrives last and therefore waits least. Its self time is
the largest. The part of it beyond the self time of the median rank is imbalance. The rest of the step is communication
as the critical rank measured it, because that rank waited for no other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.job.columns import middle_rank, total_samples
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.curve import IMBALANCE

_RECENT_STEPS = 256  # in the recent figures


def step_categories(step: AlignedStep) -> dict[str, float]:
    """Return the seconds of one step by time category; they sum to the step of the critical rank."""
    self_seconds = step.self_seconds
    critical = step.critical_rank
    middle = middle_rank(self_seconds)
    if self_seconds[middle] > self_seconds[critical]:  # the critical rank did something else first and began late
        middle = critical
    causes = {phase: seconds[middle] for phase, seconds in step.phases.items()}
    causes[IMBALANCE] = self_seconds[critical] - self_seconds[middle]
    for op, seconds in step.exposed.items():
        causes[op] = seconds[critical]
    return causes


@dataclass
class JobTime:
    """The steps of one launch, summed by time category. A step that stands for others counts for each of them."""

    causes: dict[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    num_steps: int = 0
    _recent: deque[tuple[float, int | None]] = field(default_factory=lambda: deque(maxlen=_RECENT_STEPS))

    def add(self, steps: Sequence[AlignedStep]) -> None:
        """Add the steps that follow those added before."""
        for step in steps:
            for cause, seconds in step_categories(step).items():
                self.causes[cause] = self.causes.get(cause, 0.0) + seconds * step.stands_for
            self._recent.append((step.seconds, total_samples(step)))
            self.total_seconds += step.seconds * step.stands_for
            self.num_steps += step.stands_for

    @property
    def recent_seconds(self) -> list[float]:
        """The durations of the recent steps."""
        return [seconds for seconds, _ in self._recent]

    @property
    def samples_per_second(self) -> float | None:
        """The samples per second of all ranks over the recent steps; None if a rank does not report its samples."""
        counted = [(seconds, samples) for seconds, samples in self._recent if samples is not None]
        total = sum(seconds for seconds, _ in counted)
        return sum(samples for _, samples in counted) / total if total else None
