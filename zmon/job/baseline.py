"""The baseline of a job: the duration of a step while the job is healthy, learned from the job itself.

Pure. Steps are summed up in step windows of some seconds. A pause, a compilation or an evaluation's cold caches affect
few steps of a window and therefore no median. The baseline is the slowest of some consecutive windows, so that neither
a lucky moment nor the full queues at the start set the expectation. A job that gets faster for that long lowers its
baseline; a job that gets slower never raises it. Steps with another number of samples do not compare: for them the
baseline is learned anew. Steps with as many samples, but more tokens or operations, may take longer in proportion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median, median_low

from zmon.job.columns import middle, total, total_samples
from zmon.job.efficiency import lost_ratio
from zmon.schema import curve
from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow

WINDOW_SECONDS = 5.0  # contention and pauses of two seconds affect less than half of it
WINDOW_STEPS = 10  # fewer steps have no meaningful median
_NUM_WINDOWS = 64  # five minutes
LEARNED_WINDOWS = 4  # in a day of noise, fewer than 1 window in 10 was faster than the lowest baseline of 4 windows


def is_comparable(window: StepWindow, other: StepWindow) -> bool:
    """Return True if the steps of both windows have about as many samples, so that their times compare."""
    if window.samples is None or other.samples is None:
        return window.samples == other.samples
    return curve.are_similar(window.samples, other.samples)


def work_growth(window: StepWindow, baseline: Baseline) -> float:
    """Return how many times as much work as a step of the baseline a step has: tokens or operations, at least 1.

    A curriculum makes the sequences longer, and not their number. A step with less work counts as having as much:
    much of its time, such as that of its collectives, stays. Work that is unknown does not count.
    """
    pairs = ((window.tokens, baseline.tokens), (window.flops, baseline.flops))
    return max([1.0, *(now / then for now, then in pairs if now and then)])


def for_work_of(window: StepWindow, baseline: Baseline) -> Baseline:
    """Return the baseline of a step that has as much work as those of this window."""
    growth = work_growth(window, baseline)
    return replace(
        baseline,
        seconds=growth * baseline.seconds,
        self_seconds=growth * baseline.self_seconds,
        data_seconds=growth * baseline.data_seconds,
        exposed_seconds=growth * baseline.exposed_seconds,
    )


def step_window(steps: Sequence[AlignedStep]) -> StepWindow:
    """Return the medians over these steps; at least one step is required."""
    totals = [samples for step in steps if (samples := total_samples(step)) is not None]
    tokens = [number for step in steps if (number := total(step.amounts("tokens"))) is not None]
    flops = [operations for step in steps if (operations := step.flops) is not None]
    return StepWindow(
        num_steps=sum(step.stands_for for step in steps),
        seconds=median(step.seconds for step in steps),
        self_seconds=median(middle(step.self_seconds) for step in steps),
        data_seconds=median(middle(step.phases.get("data", (0.0,))) for step in steps),
        exposed_seconds=median(step.exposed_seconds for step in steps),
        samples=median_low(totals) if totals else None,
        lost_ratio=lost_ratio(steps),
        tokens=median_low(tokens) if tokens else None,
        flops=median_low(flops) if flops else None,
    )


@dataclass
class BaselineLearner:
    """The step windows of one launch so far, and the baseline learned from them."""

    step_windows: deque[StepWindow] = field(default_factory=lambda: deque(maxlen=_NUM_WINDOWS))  # complete ones
    baseline: Baseline | None = None
    _open: list[AlignedStep] = field(default_factory=list)  # steps of the window that is not complete yet
    _consecutive: deque[StepWindow] = field(default_factory=lambda: deque(maxlen=LEARNED_WINDOWS))  # comparable ones

    def add(self, steps: Iterable[AlignedStep]) -> None:
        """Add the steps that follow those added before."""
        for step in steps:
            self._open.append(step)
            seconds = sum(s.seconds * s.stands_for for s in self._open)
            if seconds >= WINDOW_SECONDS and len(self._open) >= WINDOW_STEPS:
                self._learn(step_window(self._open))
                self._open.clear()

    def _learn(self, newest: StepWindow) -> None:
        """Add a complete window, and learn the baseline anew if it does not fit any more."""
        self.step_windows.append(newest)
        if self._consecutive and not is_comparable(newest, self._consecutive[-1]):
            self._consecutive.clear()
        self._consecutive.append(newest)
        if self.baseline is not None and not is_comparable(newest, self.baseline):
            self.baseline = None
        if len(self._consecutive) == LEARNED_WINDOWS:
            slowest = max(self._consecutive, key=lambda window: window.seconds)
            if self.baseline is None or slowest.seconds < self.baseline.seconds:
                self.baseline = slowest
