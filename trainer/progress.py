"""How the training goes, for people: one live line on a terminal, a line now and then in a log. Rank 0 speaks.

step 200  loss 0.4512  normalized entropy 0.8712  51,200 samples/s  step 10.0 ms  calibration 1.003  0:01:40 left
step 200  evaluation of 10,240 samples in 1.2 s  loss 0.4633  normalized entropy 0.8801  calibration 1.011  AUC 0.7421
"""

import math
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column

from trainer.quality import Quality

REFRESH_SECONDS = 1.0  # of the live line: drawing it takes 2 ms, in which all ranks wait for this one


def terminal(rank: int) -> TextIO | None:
    """Where a live line can be drawn: None for a log, and for every rank but 0."""
    able = rank == 0 and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return sys.stdout if able else None


class Progress:
    """Says how it goes every `every` steps, or all the time where it has a terminal and is entered."""

    def __init__(
        self,
        every: int,
        say: Callable[[str], None],
        last_step: int = 0,  # 0: nobody knows
        first_step: int = 0,  # above 0 after a resume
        terminal: TextIO | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._every, self._say, self._clock = every, say, clock
        self._first, self._last = first_step, last_step
        self._line = _LiveLine(terminal, last_step) if terminal else None
        self._number = first_step
        self._samples = 0
        self._quality: Quality | None = None
        self._begin = self._told = clock()
        self._told_number, self._told_samples = first_step, 0
        self._aside = 0.0  # seconds that were no steps

    def __enter__(self) -> Self:
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.stop()

    def step(self, samples: int, quality: Quality) -> None:
        """Count a step of so many samples over all ranks; `quality` is that of the last steps."""
        self._number += 1
        self._samples += samples
        self._quality = quality
        if self._line is None:
            if self._number % self._every == 0:
                self._say(f"step {self._number}  {self._figures()}")
        elif self._clock() - self._told >= REFRESH_SECONDS or self._number == self._last:
            self._line.draw(self._number, self._figures())

    def evaluated(self, quality: Quality, seconds: float) -> None:
        """Tell what an evaluation found; the time that it took is not counted for the steps."""
        self._told += seconds
        self._aside += seconds
        took = f"evaluation of {quality.samples:,} samples in {seconds:.1f} s"
        self._say(
            f"step {self._number}  {took}  {_losses(quality)}  {_calibration(quality)}  AUC {_figure(quality.auc)}"
        )

    def summary(self, lifetime: Quality) -> str:
        """One line at the end; `lifetime` is the quality of all steps."""
        steps, seconds = self._number - self._first, self._clock() - self._begin
        line = f"finished {steps} steps in {seconds:.1f} s"
        if self._quality is None:
            return line
        speed = _speed(self._samples, steps, seconds - self._aside)
        return f"{line}: {_losses(self._quality)}  {speed}  over all steps: {_losses(lifetime)}"

    def _figures(self) -> str:
        """Since this was asked last."""
        assert self._quality is not None
        now, steps = self._clock(), self._number - self._told_number
        speed = _speed(self._samples - self._told_samples, steps, now - self._told)
        text = f"{_losses(self._quality)}  {speed}  {_calibration(self._quality)}"
        if self._last:
            left = (self._last - self._number) * (now - self._told) / steps
            text += f"  {timedelta(seconds=round(left))} left"
        self._told, self._told_number, self._told_samples = now, self._number, self._samples
        return text


class _LiveLine:
    """The bar. rich keeps what else is printed above it; drawn by the loop itself, so that no thread runs beside it."""

    def __init__(self, terminal: TextIO, last_step: int) -> None:
        columns: list[ProgressColumn] = [TextColumn("step {task.completed:.0f}")]
        if last_step:
            columns.append(BarColumn(bar_width=12))
        rest = Column(no_wrap=True, ratio=1)  # cut where the terminal is narrow
        columns.append(TextColumn("{task.description}", table_column=rest, markup=False))
        self._console = Console(file=terminal, force_terminal=True)
        self._bar = Bar(*columns, console=self._console, auto_refresh=False, expand=True)
        self._task: TaskID = self._bar.add_task("waiting for the first step …", total=last_step or None)

    def start(self) -> None:
        self._bar.start()
        self._console.show_cursor(True)  # a rank that is killed could not bring it back

    def draw(self, number: int, figures: str) -> None:
        self._bar.update(self._task, completed=number, description=figures, refresh=True)

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
