"""Normalized entropy, and the lines that people read."""

import math

import pytest

from trainer.progress import WINDOW_STEPS, Progress, normalized_entropy


def test_knowing_only_the_mean_is_one() -> None:
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert normalized_entropy(entropy, 0.25) == pytest.approx(1)
    assert normalized_entropy(entropy / 2, 0.25) == pytest.approx(0.5)


@pytest.mark.parametrize("mean_label", [0.0, 1.0])
def test_one_sided_labels_are_unknown(mean_label: float) -> None:
    assert math.isnan(normalized_entropy(0.1, mean_label))


def test_lines_tell_quality_and_speed() -> None:
    lines: list[str] = []
    times = iter([0.0, 0.5, 0.5, 4.0])
    progress = Progress(every=2, global_batch=100, say=lines.append, clock=lambda: next(times))
    progress.step(0.6, 0.5)
    progress.step(0.4, 0.5)
    assert lines == ["step 2  loss 0.5000  normalized entropy 0.7213  400 samples/s  step 250.0 ms"]
    assert progress.summary().startswith("finished 2 steps in 4.0 s: loss 0.5000")


def test_old_steps_leave_the_window() -> None:
    progress = Progress(every=1000, global_batch=1, say=pytest.fail)
    progress.step(9.0, 0.5)
    for _ in range(WINDOW_STEPS):
        entropy = progress.step(math.log(2), 0.5)
    assert entropy == pytest.approx(1)
