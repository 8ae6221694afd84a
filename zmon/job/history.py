"""What the hub remembers of a job from look to look: its recent steps, all ranks side by side.

Pure. Steps are matched by their number, never by a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.rank import RankState
from zmon.schema.step import Measures, StepRecord

KEPT_STEPS = 64
_KEPT_RECORDS = 1024  # or so many steps more where ranks are few, which alone tell less of what chance does
_MOST_STEPS = 256
_MOST_APART = 512  # steps, as an agent leaves out at most
_KEPT_PENDING = 512  # steps that wait for a rank's record; older ones were lost


def align(step: int, ranks: Sequence[StepRecord], stands_for: int = 1) -> AlignedStep:
    """One step, given every rank's record of it, rank 0 first."""
    means = [r.mean for r in ranks if r.mean is not None]
    mean = _side_by_side(step, means, stands_for, None) if len(means) == len(ranks) else None
    return _side_by_side(step, [r.measures for r in ranks], stands_for, mean)


def _side_by_side(step: int, measures: Sequence[Measures], stands_for: int, mean: AlignedStep | None) -> AlignedStep:
    own = tuple(m.self_seconds for m in measures)
    waited = [m.exposed_seconds for m in measures]
    timed = [rank for rank, (busy, waits) in enumerate(zip(own, waited, strict=True)) if busy or waits]
    last = min(timed or range(len(own)), key=lambda rank: (waited[rank], -own[rank]))
    phases = {phase for m in measures for phase in m.phases}
    ops = {op for m in measures for op in m.ops}
    of = {op: [m.ops.get(op) for m in measures] for op in ops}
    return AlignedStep(
        step=step,
        stands_for=stands_for,
        seconds=own[last] + waited[last],
        last=last,
        self_seconds=own,
        phases={phase: tuple(m.phases.get(phase, 0.0) for m in measures) for phase in phases},
        exposed={op: tuple(t.exposed_seconds if t else 0.0 for t in of[op]) for op in ops},
        sent_bytes={op: tuple(t.sent_bytes if t else 0 for t in of[op]) for op in ops},
        received_bytes={op: tuple(t.received_bytes if t else 0 for t in of[op]) for op in ops},
        samples=tuple(m.samples for m in measures),
        lookups=tuple(m.lookups for m in measures),
        mean=mean,
    )


@dataclass
class History:
    """The recent steps of one start of a job."""

    world_size: int
    steps: deque[AlignedStep] = field(default_factory=deque)
    _pending: dict[int, dict[int, StepRecord]] = field(default_factory=dict)
    _told: dict[tuple[int, str], _Told] = field(default_factory=dict)  # by rank and report key

    def __post_init__(self) -> None:
        kept = min(max(KEPT_STEPS, _KEPT_RECORDS // self.world_size), _MOST_STEPS)
        self.steps = deque(self.steps, maxlen=kept)

    def add(self, records: Mapping[int, Sequence[StepRecord]]) -> list[AlignedStep]:
        """Records by rank, in any order; gives the steps of which every rank's record is there now, oldest first."""
        whole: set[int] = set()
        for rank, steps in records.items():
            for record in steps if rank < self.world_size else ():
                ranks = self._pending.setdefault(record.step, {})
                ranks[rank] = record
                if len(ranks) == self.world_size:
                    whole.add(record.step)
        added = [self._keep(step) for step in sorted(whole)]
        for step in sorted(self._pending)[:-_KEPT_PENDING]:
            del self._pending[step]
        return added

    def _keep(self, step: int) -> AlignedStep:
        ranks = self._pending.pop(step)
        before = self.steps[-1].step if self.steps else step - 1
        apart = step - before if 0 < step - before <= _MOST_APART else 1  # or nobody was there: it speaks for itself
        aligned = align(step, [ranks[rank] for rank in range(self.world_size)], apart)
        self.steps.append(aligned)
        return aligned

    def not_finite(self, ranks: Iterable[RankState]) -> dict[str, int]:
        """By report key: for how many steps some rank has said that it is not a number.

        Left out until the rank must have told it twice: of a job that reports every hundred steps, a single odd value
        stays for a hundred. What was never a number counts from when it was first seen.
        """
        lasts: dict[str, int] = {}
        told: dict[tuple[int, str], _Told] = {}
        for r in ranks:
            for key, value in r.report.items():
                last = self._told.get((r.rank, key), _Told(None, r.step, r.step))
                if value is None:
                    told[r.rank, key] = last
                    count = r.step - last.finite_at
                    if count >= 2 * last.every:
                        lasts[key] = max(lasts.get(key, 0), count)
                elif value == last.value:
                    told[r.rank, key] = replace(last, finite_at=r.step)
                else:
                    told[r.rank, key] = _Told(value, r.step, r.step, r.step - last.changed_at)
        self._told = told
        return lasts


@dataclass(frozen=True, slots=True)
class _Told:
    """A value that a rank reports, as the hub has seen it."""

    value: float | None
    changed_at: int  # step
    finite_at: int  # step at which it was a number last
    every: int = 0  # steps between its last two changes
