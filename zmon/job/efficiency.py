"""Where the time of a job goes, so that the parts of a step sum to it.

In a synchronous step the last rank to arrive decides, the one that waits least. Its own time is the largest; what the
median rank did not need of it is imbalance; what remains of the step is communication, as that rank saw it (nobody kept
it waiting).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.curve import IMBALANCE


def step_causes(step: AlignedStep) -> dict[str, float]:
    """Seconds by cause of one step; they sum to the last arriver's."""
    own = step.self_seconds
    last, middle = step.last, sorted(range(len(own)), key=own.__getitem__)[(len(own) - 1) // 2]
    if own[middle] > own[last]:  # it began its step late, for it did something else first
        middle = last
    causes = {phase: seconds[middle] for phase, seconds in step.phases.items()}
    causes[IMBALANCE] = own[last] - own[middle]
    for op, seconds in step.exposed.items():
        causes[op] = seconds[last]
    return causes


@dataclass
class JobTime:
    """The steps of one start of a job. One that stands for others counts as often."""

    kept_recent: int = 256
    causes: dict[str, float] = field(default_factory=dict)
    total_seconds: float = 0.0
    num_steps: int = 0
    _recent: deque[tuple[float, int | None]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._recent = deque(maxlen=self.kept_recent)

    def add(self, steps: Sequence[AlignedStep]) -> None:
        """Steps that followed those before."""
        for step in steps:
            for cause, seconds in step_causes(step).items():
                self.causes[cause] = self.causes.get(cause, 0.0) + seconds * step.stands_for
            samples = [number for number in step.samples if number is not None]
            self._recent.append((step.seconds, sum(samples) if len(samples) == len(step.samples) else None))
            self.total_seconds += step.seconds * step.stands_for
            self.num_steps += step.stands_for

    @property
    def recent_seconds(self) -> list[float]:
        """Durations of the recent steps."""
        return [seconds for seconds, _ in self._recent]

    @property
    def samples_per_second(self) -> float | None:
        """Of all ranks over the recent steps; None where a rank does not tell its samples."""
        known = [(seconds, samples) for seconds, samples in self._recent if samples is not None]
        total = sum(seconds for seconds, _ in known)
        return sum(samples for _, samples in known) / total if total else None
