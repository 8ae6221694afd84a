"""The recent steps of a job, aligned over all ranks.

Pure. Steps are matched by their number, never by a clock.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.rank import RankState
from zmon.schema.step import Measures, StepRecord

N = TypeVar("N", int, int | None)
MIN_STEPS = 64  # the fewest aligned steps in memory
_MAX_RECORDS = 1024  # with few ranks more steps are needed to estimate the noise
_MAX_STEPS = 256
_MAX_APART = 512  # the most steps that an agent leaves out between two records
# Steps that wait for the record of some rank. A record takes 2 kB, or 4 kB with a mean. If the agent of one host is
# silent, the steps of all other ranks wait.
_MAX_PENDING = 512
_MAX_PENDING_RECORDS = 32_768
_MIN_PENDING = 16  # twice as many as a request of the hub returns


def align(step: int, ranks: Sequence[StepRecord], stands_for: int = 1) -> AlignedStep:
    """Return the aligned step, given the record of every rank, rank 0 first."""
    means = [r.mean for r in ranks if r.mean is not None]
    mean = _side_by_side(step, means, stands_for, None) if len(means) == len(ranks) else None
    aligned = _side_by_side(step, [r.measures for r in ranks], stands_for, mean)
    return replace(aligned, total_sent_bytes=_whole_numbers([r.total_sent_bytes for r in ranks]))


def _side_by_side(step: int, measures: Sequence[Measures], stands_for: int, mean: AlignedStep | None) -> AlignedStep:
    self_seconds = array("d", (m.self_seconds for m in measures))
    exposed = [m.exposed_seconds for m in measures]
    timed = [rank for rank, times in enumerate(zip(self_seconds, exposed, strict=True)) if any(times)]
    critical = min(timed or range(len(measures)), key=lambda rank: (exposed[rank], -self_seconds[rank]))
    phases = {phase for m in measures for phase in m.phases}
    ops = {op for m in measures for op in m.ops}
    totals = {op: [m.ops.get(op) for m in measures] for op in ops}
    return AlignedStep(
        step=step,
        stands_for=stands_for,
        seconds=self_seconds[critical] + exposed[critical],
        critical_rank=critical,
        self_seconds=self_seconds,
        phases={phase: array("d", (m.phases.get(phase, 0.0) for m in measures)) for phase in phases},
        exposed={op: array("d", (t.exposed_seconds if t else 0.0 for t in totals[op])) for op in ops},
        sent_bytes={op: _whole_numbers([t.sent_bytes if t else 0 for t in totals[op]]) for op in ops},
        received_bytes={op: _whole_numbers([t.received_bytes if t else 0 for t in totals[op]]) for op in ops},
        samples=_whole_numbers([m.samples for m in measures]),
        lookups=_whole_numbers([m.lookups for m in measures]),
        mean=mean,
    )


def _whole_numbers(column: Sequence[N]) -> Sequence[N]:
    """Return an array, or a tuple if a number is unknown or has more than 63 bits, as a box can claim."""
    try:
        return array("q", column)  # type: ignore[type-var]
    except (OverflowError, TypeError):
        return tuple(column)


@dataclass
class History:
    """The recent aligned steps of one launch."""

    world_size: int
    steps: deque[AlignedStep] = field(default_factory=deque)
    _pending: dict[int, dict[int, StepRecord]] = field(default_factory=dict)  # step → rank → record
    _newest: dict[int, int] = field(default_factory=dict)  # rank → the last step that it reported
    _reported: dict[tuple[int, str], _ReportedValue] = field(default_factory=dict)  # (rank, report key) → value

    def __post_init__(self) -> None:
        num_steps = min(max(MIN_STEPS, _MAX_RECORDS // self.world_size), _MAX_STEPS)
        self.steps = deque(self.steps, maxlen=num_steps)
        self._max_pending = max(_MIN_PENDING, min(_MAX_PENDING_RECORDS // self.world_size, _MAX_PENDING))

    def add(self, records: Mapping[int, Sequence[StepRecord]]) -> list[AlignedStep]:
        """Add records by rank. Return the steps that are complete on all ranks now, oldest first.

        The records of a rank may be in any order, but all are newer than those that were added before.
        """
        complete: set[int] = set()
        for rank, steps in records.items():
            if not steps or rank >= self.world_size:
                continue
            self._newest[rank] = max(record.step for record in steps)
            for record in steps:
                ranks = self._pending.setdefault(record.step, {})
                ranks[rank] = record
                if len(ranks) == self.world_size:
                    complete.add(record.step)
        added = [self._append(step) for step in sorted(complete)]
        self._drop_incomplete()
        return added

    def _drop_incomplete(self) -> None:
        """Drop the steps that stay incomplete, and the first ones of too many.

        A rank that has reported a later step will not report an earlier one: its record was lost, or the ranks sampled
        different steps.
        """
        newest = sorted(self._newest.values())
        for step, ranks in [*self._pending.items()]:
            num_reached = len(newest) - bisect_left(newest, step)  # ranks that have reported this step or a later one
            if num_reached > len(ranks):
                del self._pending[step]
        for step in [*self._pending][: -self._max_pending]:
            del self._pending[step]

    def _append(self, step: int) -> AlignedStep:
        ranks = self._pending.pop(step)
        previous = self.steps[-1].step if self.steps else step - 1
        apart = step - previous
        stands_for = apart if 0 < apart <= _MAX_APART else 1  # after a gap it stands for itself only
        aligned = align(step, [ranks[rank] for rank in range(self.world_size)], stands_for)
        self.steps.append(aligned)
        return aligned

    def not_finite(self, ranks: Iterable[RankState]) -> dict[str, int]:
        """Return, by report key, for how many steps some rank has reported NaN.

        A key is left out until the rank must have reported NaN twice. In a job that reports every hundred steps, a
        single odd value would otherwise count as a hundred steps. A value that was never a number counts
        from the first report.
        """
        num_steps: dict[str, int] = {}
        reported: dict[tuple[int, str], _ReportedValue] = {}
        for r in ranks:
            for key, value in r.report.items():
                previous = self._reported.get((r.rank, key), _ReportedValue(None, r.step, r.step))
                if value is None:
                    reported[r.rank, key] = previous
                    count = r.step - previous.last_finite_step
                    if count >= 2 * previous.every:
                        num_steps[key] = max(num_steps.get(key, 0), count)
                elif value == previous.value:
                    reported[r.rank, key] = replace(previous, last_finite_step=r.step)
                else:
                    every = r.step - previous.last_change_step
                    reported[r.rank, key] = _ReportedValue(value, r.step, r.step, every)
        self._reported = reported
        return num_steps


@dataclass(frozen=True, slots=True)
class _ReportedValue:
    """The last value of a report key on one rank, with the steps at which it changed."""

    value: float | None
    last_change_step: int
    last_finite_step: int  # the last step at which it was a number
    every: int = 0  # steps between its last two changes
