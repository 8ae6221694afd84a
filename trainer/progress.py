"""The progress of the training: a live line on a terminal, a line every few steps in a log. Only rank 0 prints it.

step 200  loss 0.4512  normalized entropy 0.8712  51,200 samples/s  step 10.0 ms  calibration 1.003  0:01:40 left
step 200  evaluation of 10,240 samples in 1.2 s  loss 0.4633  normalized entropy 0.8801  calibration 1.011  AUC 0.7421
"""

import math
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from trainer.quality import Quality

REFRESH_SECONDS = 1.0  # interval of the live line; each refresh takes 2 ms, in which all ranks wait for rank 0


def terminal(rank: int) -> TextIO | None:
    """Return the terminal for the live line, or None if stdout is not a terminal or the rank is not 0."""
    is_usable = rank == 0 and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return sys.stdout if is_usable else None


class _Work(NamedTuple):
    """The steps of the run so far."""

    seconds: float  # without evaluations
    steps: int
    samples: int


class Progress:
    """Prints loss, quality and speed every `interval_steps`, or on a live line if it has a terminal."""

    def __init__(
        self,
        interval_steps: int,
        say: Callable[[str], None],
        last_step: int = 0,  # 0: unknown
        first_step: int = 0,  # above 0 after a resume
        terminal: TextIO | None = None,
        clock: Callable[[], float] = time.perf_counter,
        note: Callable[[], str] = lambda: "",  # additional text for each line
    ) -> None:
        self._interval_steps = interval_steps
        self._say = say
        self._clock = clock
        self._note = note
        self._first_step, self._last_step = first_step, last_step
        self._live_line = _LiveLine(terminal, last_step) if terminal else None
        self._steps_done = first_step
        self._samples = 0
        self._quality: Quality | None = None
        self._start = clock()
        self._evaluation_seconds = 0.0
        self._last_report = self._work_done()  # when figures were printed last

    def __enter__(self) -> Self:
        if self._live_line is not None:
            self._live_line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live_line is not None:
            self._live_line.stop()

    def step(self, samples: int, quality: Quality) -> None:
        """Count a step with its samples over all ranks; `quality` is the quality of the last steps."""
        self._steps_done += 1
        self._samples += samples
        self._quality = quality
        if self._live_line is None:
            if self._steps_done % self._interval_steps == 0:
                self._say(f"step {self._steps_done}  {self._next_report()}")
            return
        seconds = self._work_done().seconds - self._last_report.seconds
        if seconds >= REFRESH_SECONDS or self._steps_done == self._last_step:
            self._live_line.draw(self._steps_done, self._next_report())

    def print_evaluation(self, quality: Quality, seconds: float) -> None:
        """Print the result of an evaluation. The time of the evaluation does not count as time of steps."""
        self._evaluation_seconds += seconds
        label = f"evaluation of {quality.samples:,} samples in {seconds:.1f} s"
        self._say(
            f"step {self._steps_done}  {label}  {_losses(quality)}  {_calibration(quality)}  AUC {_figure(quality.auc)}"
        )

    def summary(self, lifetime: Quality) -> str:
        """Return the last line of a run; `lifetime` is the quality of all steps."""
        work = self._work_done()
        steps = work.steps - self._first_step
        line = f"finished {steps} steps in {work.seconds + self._evaluation_seconds:.1f} s"
        if self._quality is None:
            return line
        speed = _speed(work.samples, steps, work.seconds)
        return f"{line}: {_losses(self._quality)}  {speed}  over all steps: {_losses(lifetime)}"

    def _work_done(self) -> _Work:
        seconds = self._clock() - self._start - self._evaluation_seconds
        return _Work(seconds, self._steps_done, self._samples)

    def _next_report(self) -> str:
        """Return loss, speed and calibration of the steps since the last call."""
        assert self._quality is not None
        before, now = self._last_report, self._work_done()
        self._last_report = now
        steps, seconds = now.steps - before.steps, now.seconds - before.seconds
        speed = _speed(now.samples - before.samples, steps, seconds)
        parts = _losses(self._quality), speed, _calibration(self._quality), self._note()
        text = "  ".join(filter(None, parts))
        if self._last_step:
            seconds_left = (self._last_step - self._steps_done) * seconds / steps
            text += f"  {timedelta(seconds=round(seconds_left))} left"
        return text


class _LiveLine:
    """The live line with its bar; rich prints other lines above it.

    The training loop draws it, so that no thread runs beside the training.
    """

    def __init__(self, terminal: TextIO, last_step: int) -> None:
        columns: list[ProgressColumn] = [TextColumn("step {task.completed:.0f}")]
        if last_step:
            columns.append(BarColumn(bar_width=12))
        remaining_width = Column(no_wrap=True, ratio=1)  # cut off on a narrow terminal
        columns.append(TextColumn("{task.description}", table_column=remaining_width, markup=False))
        self._console = Console(file=terminal, force_terminal=True)
        self._bar = Bar(*columns, console=self._console, auto_refresh=False, expand=True)
        self._task: TaskID = self._bar.add_task("waiting for the first step …", total=last_step or None)

    def start(self) -> None:
        self._bar.start()
        self._console.show_cursor(True)  # because a rank that is killed could not restore the cursor

    def draw(self, steps_done: int, report: str) -> None:
        self._bar.update(self._task, completed=steps_done, description=report, refresh=True)

    def stop(self) -> None:
        self._bar.stop()


def _losses(quality: Quality) -> str:
    return f"loss {_figure(quality.log_loss)}  normalized entropy {_figure(quality.normalized_entropy)}"


def _calibration(quality: Quality) -> str:
    return f"calibration {_figure(quality.calibration, 3)}"


def _figure(value: float, digits: int = 4) -> str:
    return "unknown" if math.isnan(value) else f"{value:.{digits}f}"


def _speed(samples: int, steps: int, seconds: float) -> str:
    return f"{samples / seconds:,.0f} samples/s  step {seconds / steps * 1000:.1f} ms"
