"""Tests of the progress of a run: lines in a log, and a live line in a terminal."""

import io
import math
import re
import sys

import pytest

from trainer.progress import REFRESH_SECONDS, Progress, terminal
from trainer.quality import Quality

GOOD = Quality(samples=100, log_loss=0.5, normalized_entropy=0.72134, calibration=1.0042, auc=0.74215)
UNKNOWN = Quality(samples=0, log_loss=math.nan, normalized_entropy=math.nan, calibration=math.nan)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_steps(progress: Progress, clock: Clock, steps: int, seconds: float) -> None:
    """Run steps of 100 samples, each of which takes these seconds."""
    for _ in range(steps):
        clock.now += seconds
        progress.step(100, GOOD)


def test_progress_line_has_quality_and_speed() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress(interval_steps=2, say=lines.append, clock=clock)
    run_steps(progress, clock, steps=3, seconds=0.25)
    assert lines == ["step 2  loss 0.5000  normalized entropy 0.7213  400 samples/s  step 250.0 ms  calibration 1.004"]


def test_progress_line_has_time_left_if_last_step_is_known() -> None:
    lines, clock = list[str](), Clock()
    run_steps(Progress(interval_steps=2, say=lines.append, last_step=100, clock=clock), clock, steps=2, seconds=1.0)
    assert lines[0].endswith("  0:01:38 left")


def test_unknown_metrics_are_printed_as_unknown() -> None:
    lines = list[str]()
    progress = Progress(interval_steps=1, say=lines.append, clock=Clock())
    progress.print_evaluation(UNKNOWN, seconds=1)
    assert lines[0].endswith("loss unknown  normalized entropy unknown  calibration unknown  AUC unknown")
    assert Progress(interval_steps=1, say=pytest.fail, clock=Clock()).summary(UNKNOWN) == "finished 0 steps in 0.0 s"


def test_resumed_run_continues_to_count_steps() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress(interval_steps=10, say=lines.append, first_step=8, clock=clock)
    run_steps(progress, clock, steps=2, seconds=0.5)
    assert lines[0].startswith("step 10  ")
    assert "step 500.0 ms" in lines[0]
    assert progress.summary(GOOD).startswith("finished 2 steps in 1.0 s: loss 0.5000  normalized entropy 0.7213  200 ")


def test_evaluation_prints_line_and_does_not_lower_speed() -> None:
    lines, clock = list[str](), Clock()
    progress = Progress(interval_steps=2, say=lines.append, clock=clock)
    run_steps(progress, clock, steps=1, seconds=0.25)
    clock.now += 8
    progress.print_evaluation(GOOD, seconds=8)
    run_steps(progress, clock, steps=1, seconds=0.25)
    figures = "loss 0.5000  normalized entropy 0.7213  calibration 1.004  AUC 0.7421"
    assert lines[0] == f"step 1  evaluation of 100 samples in 8.0 s  {figures}"
    assert "400 samples/s  step 250.0 ms" in lines[1]
    assert "in 8.5 s" in progress.summary(GOOD)
    assert "400 samples/s  step 250.0 ms" in progress.summary(GOOD)


def test_terminal_shows_live_line_and_evaluations(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stdout", screen)
    with Progress(interval_steps=1, say=print, last_step=30, terminal=screen, clock=clock) as progress:
        run_steps(progress, clock, steps=10, seconds=REFRESH_SECONDS / 4)
        progress.print_evaluation(GOOD, seconds=0)
        run_steps(progress, clock, steps=20, seconds=REFRESH_SECONDS / 4)
    assert sys.stdout is screen
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    drawn = [line for line in re.split(r"[\r\n]+", text) if "samples/s" in line]
    assert {int(line.split()[1]) for line in drawn} == {4, 8, 12, 16, 20, 24, 28, 30}
    assert "loss 0.5000  normalized entropy 0.7213  400 samples/s  step 250.0 ms" in drawn[-1]
    assert "\nstep 10  evaluation of 100 samples" in text.replace("\r", "\n")
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")  # the cursor is visible


@pytest.mark.parametrize(
    ("rank", "kind", "stream", "drawn"),
    [
        (0, "xterm", Terminal(), True),
        (1, "xterm", Terminal(), False),
        (0, "dumb", Terminal(), False),
        (0, "xterm", io.StringIO(), False),
    ],
)
def test_live_line_is_drawn_only_on_terminal_of_rank_0(monkeypatch, rank, kind, stream, drawn) -> None:
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in many CI systems, whose logs are no terminals
    monkeypatch.setattr(sys, "stdout", stream)
    assert (terminal(rank) is stream) is drawn
