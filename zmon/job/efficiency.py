"""The time categories of a step and of a job, which sum to the duration, and the time that uneven ranks lose. Pure.

The critical rank determines the duration of a synchronous step. It arrives last and therefore waits least, and its
self time is the largest. Its self time beyond the self time of the median rank is imbalance. The rest of the step is
communication as the critical rank measured it, because that rank did not wait for another rank.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.job.columns import exposed_by_rank, middle_rank, samples_meanwhile, total_samples, values
from zmon.schema.aligned_step import AlignedStep, StepWindow
from zmon.schema.curve import IMBALANCE

RECENT_STEPS = 256  # steps in the recent figures: enough for steady figures, and few enough to follow a change


def step_categories(step: AlignedStep, alone: int | None = None) -> dict[str, float]:
    """Return the seconds of one step by time category; they sum to the step of the critical rank.

    If ranks are not compared, because they do not wait for each other, the seconds are of the rank `alone`.
    """
    if alone is not None:
        return {IMBALANCE: 0.0, **{phase: seconds[alone] for phase, seconds in step.phases.items()}}
    self_seconds = step.self_seconds
    critical = step.critical_rank
    middle = middle_rank(self_seconds)
    if self_seconds[middle] > self_seconds[critical]:  # the critical rank did something else first and began late
        middle = critical
    categories = {phase: seconds[middle] for phase, seconds in step.phases.items()}
    categories[IMBALANCE] = self_seconds[critical] - self_seconds[middle]
    for op, seconds in step.exposed.items():
        categories[op] = seconds[critical]
    return categories


@dataclass
class JobTime:
    """The steps of one launch, summed by time category. A step that stands for several steps counts as all of them."""

    causes: dict[str, float] = field(default_factory=dict)  # seconds by time category
    total_seconds: float = 0.0
    num_steps: int = 0
    # The seconds and the samples of each recent step; None: a rank does not report its samples.
    _recent: deque[tuple[float, float | None]] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    def add(self, steps: Sequence[AlignedStep], alone: int | None = None) -> None:
        """Add the steps that follow the steps added before. If ranks are not compared, the rank `alone` is shown."""
        for step in steps:
            for category, seconds in step_categories(step, alone).items():
                self.causes[category] = self.causes.get(category, 0.0) + seconds * step.stands_for
            seconds = step.seconds if alone is None else step.seconds_of(alone)
            self._recent.append((seconds, total_samples(step) if alone is None else samples_meanwhile(step, alone)))
            self.total_seconds += seconds * step.stands_for
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


def lost_seconds(step: AlignedStep) -> float:
    """Return the seconds by which the step would be shorter if its work were spread evenly over its ranks.

    The result is the largest self time minus the mean self time. Its limit is the mean exposed time minus the least
    exposed time. So ranks that average their gradients only every tenth step lose nothing in the other steps.
    """
    self_times, exposed = values(step.self_seconds), exposed_by_rank(step)
    return max(min(float(self_times.max() - self_times.mean()), float(exposed.mean() - exposed.min())), 0.0)


def lost_ratio(steps: Sequence[AlignedStep]) -> float | None:
    """Return the ratio of the time of these steps that uneven ranks lose, 0 to 1; None without any duration."""
    seconds = sum(step.seconds for step in steps)
    return sum(map(lost_seconds, steps)) / seconds if seconds else None


@dataclass(frozen=True)
class LastingLoss:
    """A loss that has lasted over several step windows."""

    ratio: float  # lost time ÷ time, without the window that lost most
    lost_seconds: float  # in all windows; the window that lost most counts like the window that lost second most
    seconds: float  # duration of all windows


def lasting_loss(windows: Sequence[StepWindow], num_windows: int, least_ratio: float) -> LastingLoss | None:
    """Return the loss of the newest windows; None if it is below `least_ratio`, or if there are too few windows.

    The loss reaches back for as long as the windows together lose `least_ratio`. The window that lost most does not
    count for the ratio. A single pause of one rank, or two seconds of contention, is in one window, and is not a reason
    to act. A long pause, for example of a whole host, must not make a small loss large.
    """
    latest = None
    total = lost = most_lost = second_most_lost = seconds_of_worst = 0.0
    for number, window in enumerate(reversed(windows), 1):
        if window.lost_ratio is None:
            break
        seconds = window.seconds * window.num_steps
        lost_in_window = window.lost_ratio * seconds
        total += seconds
        lost += lost_in_window
        if lost_in_window >= most_lost:
            second_most_lost, most_lost, seconds_of_worst = most_lost, lost_in_window, seconds
        else:
            second_most_lost = max(second_most_lost, lost_in_window)
        if number < num_windows:
            continue
        ratio = (lost - most_lost) / (total - seconds_of_worst)
        if ratio < least_ratio:
            break
        if latest is None or window.lost_ratio >= least_ratio:  # the loss began with a window of this ratio
            latest = LastingLoss(ratio, lost - most_lost + second_most_lost, total)
    return latest
