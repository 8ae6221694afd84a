"""Where the time of a job goes, so that the parts of a step sum to it.

In a synchronous step the last rank to arrive decides. Its own time is the largest; what the median rank did not need of
it is imbalance; what remains of the step after it is communication, as that rank saw it (nobody kept it waiting).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zmon.records import StepRecord

_KEPT_PENDING = 2048  # steps that wait for a rank's record; older ones were lost


def step_causes(records: Sequence[StepRecord]) -> dict[str, float]:
    """Seconds by cause of one step, given the record of every rank; they sum to the last arriver's step."""
    by_self = sorted(records, key=lambda r: r.measures.self_seconds)
    last, middle = by_self[-1], by_self[(len(by_self) - 1) // 2]
    causes = dict(middle.measures.phases)
    causes["imbalance"] = last.measures.self_seconds - middle.measures.self_seconds
    for op, totals in last.measures.ops.items():
        causes[op] = totals.exposed_seconds
    return causes


@dataclass
class JobTime:
    """The running account of one job: steps of all ranks are matched by number, then added up."""

    bounds: tuple[float, ...]  # of the histogram, seconds
    kept_recent: int = 256
    causes: dict[str, float] = field(default_factory=dict)
    histogram: list[int] = field(default_factory=list)
    total_seconds: float = 0.0
    num_steps: int = 0
    _pending: dict[int, dict[int, StepRecord]] = field(default_factory=dict)
    _recent: deque[tuple[float, int | None]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.histogram = [0] * (len(self.bounds) + 1)
        self._recent = deque(maxlen=self.kept_recent)

    def add(self, records: Mapping[int, Sequence[StepRecord]], world_size: int) -> None:
        """Records by rank, in any order; a step counts once every rank's record of it is there."""
        for rank, steps in records.items():
            for record in steps:
                ranks = self._pending.setdefault(record.step, {})
                ranks[rank] = record
                if len(ranks) == world_size:
                    del self._pending[record.step]
                    self._account(list(ranks.values()))
        for step in sorted(self._pending)[:-_KEPT_PENDING]:
            del self._pending[step]

    def _account(self, records: list[StepRecord]) -> None:
        causes = step_causes(records)
        for cause, seconds in causes.items():
            self.causes[cause] = self.causes.get(cause, 0.0) + seconds
        duration = sum(causes.values())
        samples = [r.measures.samples for r in records if r.measures.samples is not None]
        self._recent.append((duration, sum(samples) if len(samples) == len(records) else None))
        self.histogram[bisect.bisect_left(self.bounds, duration)] += 1
        self.total_seconds += duration
        self.num_steps += 1

    @property
    def recent_seconds(self) -> list[float]:
        """Durations of the recent steps."""
        return [duration for duration, _ in self._recent]

    @property
    def samples_per_second(self) -> float | None:
        """Of all ranks over the recent steps; None where a rank does not tell its samples."""
        known = [(duration, samples) for duration, samples in self._recent if samples is not None]
        seconds = sum(duration for duration, _ in known)
        return sum(samples for _, samples in known) / seconds if seconds else None
