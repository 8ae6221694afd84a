"""The progress of a job to its planned last step, and the time that is left, as an interval.

Pure. The time left is the remaining steps × the wall-clock time per step of this launch, over its last hour of training
at most: evaluations and checkpoints between the steps count, stalls do not, because nobody can foresee them. The
interval is that of the slowest and the fastest quarter of this hour. The pace is that of finished steps, whatever their
numbers are: a job that resumed at step 30,000 has finished none of these. It is unknown until 3 minutes and 4 steps are
measured. After a restart of the job or of the hub, it is measured anew.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from zmon.schema.job import EXITED, Progress, TimeLeft

_MARK_SECONDS = 15.0  # an hour has 240 marks
_LONGEST_SECONDS = 3600.0  # earlier marks are forgotten
_LEAST_SECONDS = 180.0  # over which the pace must have been measured
_QUARTERS = 4  # each has at least one step
_TOO_NEW = f"until {_LEAST_SECONDS / 60:.0f} min and {_QUARTERS} steps are measured"
_ENDED = ("done", EXITED)
_UNKNOWN_IN = {  # by state of a job
    "stalled": "while the job is stalled",
    "unknown": "while no agent reports its ranks",
}


class _Mark(NamedTuple):
    """A moment at which a step had just finished."""

    seconds: float  # of watching, without stalls
    steps: int  # finished ones


@dataclass
class Pace:
    """The pace of one launch: its wall-clock time per finished step, without stalls."""

    _marks: deque[_Mark] = field(default_factory=deque)
    _last: _Mark | None = None  # of the last step; its time is that of the pass that noticed it
    _steps: int | None = None
    _seconds: float = 0.0
    _time: float | None = None  # unix seconds of the last pass

    def add(self, time: float, steps: int, stalled: bool) -> None:
        """Add what one pass of the hub saw: the number of steps that the launch has finished."""
        elapsed = 0.0 if self._time is None else max(time - self._time, 0.0)
        known_steps = self._steps
        self._time = time
        self._steps = steps
        if known_steps is None or steps < known_steps:  # other ranks report now
            self._marks.clear()
            self._last = None
        elif steps > known_steps:
            self._seconds += elapsed
            self._finish(_Mark(self._seconds, steps))
        elif stalled and self._last:
            self._seconds = self._last.seconds
        else:
            self._seconds += elapsed

    def _finish(self, mark: _Mark) -> None:
        marks = self._marks
        self._last = mark
        if not marks or mark.seconds - marks[-1].seconds >= _MARK_SECONDS:
            marks.append(mark)
        while len(marks) > _QUARTERS + 1 and mark.seconds - marks[0].seconds > _LONGEST_SECONDS:
            marks.popleft()

    def time_left(self, steps: int) -> TimeLeft | None:
        """Return the time that this many steps take; None if too few were measured."""
        marks = [*self._marks]
        if self._last and marks and self._last != marks[-1]:
            marks.append(self._last)
        last = len(marks) - 1
        if last < _QUARTERS or marks[-1].seconds - marks[0].seconds < _LEAST_SECONDS:
            return None
        bounds = [marks[round(quarter * last / _QUARTERS)] for quarter in range(_QUARTERS + 1)]
        paces = [_seconds_per_step(*pair) for pair in pairwise(bounds)]
        mean = _seconds_per_step(marks[0], marks[-1])
        return TimeLeft(steps * mean, steps * min(paces), steps * max(paces))

    def move_times(self, seconds: float) -> None:
        """Move the time of the last pass along with the hub's clock, which was set by these seconds."""
        self._time = None if self._time is None else self._time + seconds


def _seconds_per_step(begin: _Mark, end: _Mark) -> float:
    return (end.seconds - begin.seconds) / (end.steps - begin.steps)


def progress(planned: int | None, step: int, state: str, pace: Pace) -> Progress | None:
    """Return the progress of a job in this state, see `job_state` of the hub; None if its last step is not known."""
    if planned is None:
        return None
    if step == planned + 1:  # the counter is at the next step once the last one is finished
        step = planned
    remaining = planned - step
    if remaining <= 0 or state in _ENDED:
        return Progress(planned, step)
    if reason := _UNKNOWN_IN.get(state):
        return Progress(planned, step, unknown=reason)
    left = pace.time_left(remaining)
    return Progress(planned, step, left, "" if left else _TOO_NEW)
