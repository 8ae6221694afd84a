"""What a step of this job is like when it is well, learned from the job itself.

Pure. Steps are summed up in stretches of some seconds; a pause, a compilation or an evaluation's cold caches touch few
steps of a stretch and no median. The baseline is the slowest of some stretches on end, so that neither a lucky moment
nor queues that were full at the start become what is expected. A job that gets faster for that long lowers it, one that
gets slower never raises it. Steps of another number of samples are another kind: for them it is learned anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median, median_low

from zmon.schema import curve
from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow

STRETCH_SECONDS = 5.0  # contention and pauses of two seconds stay the smaller part
STRETCH_STEPS = 10  # fewer have no median to speak of
KEPT_STRETCHES = 64  # five minutes
LEARNED_STRETCHES = 4  # in a day of chance not one in ten is quicker than the slowest of four on end can get


def alike(one: StepWindow, other: StepWindow) -> bool:
    """Whether the steps of both had about as many samples, so that their times compare."""
    if one.samples is None or other.samples is None:
        return one.samples == other.samples
    return curve.alike(one.samples, other.samples)


def stretch(steps: Sequence[AlignedStep]) -> StepWindow:
    """What these steps, one at least, were like."""
    totals = [sum(n for n in step.samples if n is not None) for step in steps if None not in step.samples]
    return StepWindow(
        num_steps=sum(step.stands_for for step in steps),
        seconds=median(step.seconds for step in steps),
        self_seconds=median(median_low(step.self_seconds) for step in steps),
        data_seconds=median(median_low(step.phases.get("data", (0.0,))) for step in steps),
        exposed_seconds=median(step.exposed_seconds for step in steps),
        samples=median_low(totals) if totals else None,
    )


@dataclass
class Learning:
    """What one start of a job has shown of itself so far."""

    stretches: deque[StepWindow] = field(default_factory=lambda: deque(maxlen=KEPT_STRETCHES))
    baseline: Baseline | None = None
    _open: list[AlignedStep] = field(default_factory=list)  # of the stretch that goes on
    _on_end: deque[StepWindow] = field(default_factory=lambda: deque(maxlen=LEARNED_STRETCHES))  # all of one kind

    def add(self, steps: Iterable[AlignedStep]) -> None:
        """Steps that followed those before."""
        for step in steps:
            self._open.append(step)
            seconds = sum(s.seconds * s.stands_for for s in self._open)
            if seconds >= STRETCH_SECONDS and len(self._open) >= STRETCH_STEPS:
                self._learn(stretch(self._open))
                self._open.clear()

    def _learn(self, newest: StepWindow) -> None:
        self.stretches.append(newest)
        if self._on_end and not alike(newest, self._on_end[-1]):
            self._on_end.clear()
        self._on_end.append(newest)
        if self.baseline is not None and not alike(newest, self.baseline):
            self.baseline = None
        if len(self._on_end) == LEARNED_STRETCHES:
            slowest = max(self._on_end, key=lambda s: s.seconds)
            if self.baseline is None or slowest.seconds < self.baseline.seconds:
                self.baseline = slowest
