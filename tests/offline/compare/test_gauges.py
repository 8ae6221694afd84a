"""Tests of the comparison of reported values. A higher loss at equal samples is detected despite noise."""

from dataclasses import replace
from random import Random

import pytest

from zmon.offline.compare import Series, compare_gauges


def run(seed, higher=0.0, reports=200, every=10, samples=64, noise=0.003, name="loss", shift=0):
    """Return a run whose falling loss is reported every `every` steps, from step `every + shift` on.

    Each loss is higher by the ratio `higher`, with Gaussian noise of the deviation `noise`.
    """
    chance = Random(seed)
    points = []
    for number in range(1, reports + 1):
        step = number * every + shift
        loss = 0.5 + 0.4 / (1 + step / 50)
        points.append((step * samples, loss * (1 + higher) + chance.gauss(0, noise)))
    return Series(
        "a", "job", attempt=0, world_size=1, steps=(), seconds=(), causes={}, samples=None, gauges={name: points}
    )


def compare_single_gauge(before, after):
    """Return the change of the only gauge of two runs."""
    (change,) = compare_gauges(before, after)
    return change


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        pytest.param(run(1), run(2, higher=0.005), "higher", id="higher"),
        pytest.param(run(1, higher=0.005), run(2), "lower", id="lower"),
        pytest.param(run(1), run(2, shift=5, higher=0.005), "higher", id="reported at other steps"),
        pytest.param(run(1), run(2, reports=800), "alike", id="up to the end of the shorter"),
        pytest.param(run(1), run(2, shift=100_000), "unknown", id="no common samples"),
    ],
)
def test_change_of_a_loss_of_half_a_percent_is_detected_at_equal_samples(before, after, result):
    change = compare_single_gauge(before, after)
    assert change.result == result
    if result in ("higher", "lower"):
        assert abs(change.change) == pytest.approx(0.005, abs=change.half_width)


@pytest.mark.parametrize("seed", range(10))
def test_equal_runs_are_alike(seed):
    assert compare_single_gauge(run(2 * seed), run(2 * seed + 1)).result == "alike"


def test_runs_with_different_batch_sizes_are_compared_at_equal_samples():
    """At equal steps the run with the larger batch has processed more samples."""
    change = compare_single_gauge(
        run(1, reports=400, every=10, samples=64, noise=0.0), run(2, reports=400, every=20, samples=32, noise=0.0)
    )
    assert change.before == pytest.approx(change.after, rel=0.02)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.7e308, -1.7e308])
def test_gauge_with_a_value_without_a_mean_is_unknown(value):
    broken = run(2)
    broken.gauges["loss"][150:152] = [(samples, value) for samples, _ in broken.gauges["loss"][150:152]]
    for change in (compare_single_gauge(run(1), broken), compare_single_gauge(broken, run(1))):
        assert (change.result, change.reason) == (
            "unknown", "one of the runs reported a value that is NaN, infinite, or at least 1e+300 in magnitude",
        )  # fmt: skip


def run_of_zeros():
    """Return a run whose loss is always 0."""
    zeros = run(1)
    zeros.gauges["loss"] = [(samples, 0.0) for samples, _ in zeros.gauges["loss"]]
    return zeros


BY_SAMPLES, BY_STEPS = replace(run(1), samples=[64]), run(1, samples=1)
NO_SAMPLES = "one of the runs does not report its samples"
UNKNOWN = {  # two runs, and why their losses cannot be compared
    "1 value": (run(1, reports=1), run(2, reports=1), "each run needs 24 values"),
    "20 values": (run(1, reports=20), run(2, reports=20), "each run needs 24 values"),
    "40 values, of which the last half counts": (run(1, reports=40), run(2, reports=40), "each run needs 24 values"),
    "samples and steps": (BY_SAMPLES, BY_STEPS, NO_SAMPLES),
    "steps and samples": (BY_STEPS, BY_SAMPLES, NO_SAMPLES),
    "mean of 0": (run_of_zeros(), run(2), "its mean is 0 in the first run"),
}


@pytest.mark.parametrize(("before", "after", "reason"), UNKNOWN.values(), ids=UNKNOWN)
def test_comparison_is_unknown_with_a_reason(before, after, reason):
    change = compare_single_gauge(before, after)
    assert (change.result, change.change) == ("unknown", None)
    assert reason in change.reason


def test_comparison_is_unknown_without_common_blocks_of_samples():
    """One run reports in every other block of samples, the other run in the blocks between."""
    before, after = run(1, reports=1600, every=1), run(2, reports=1601, every=1)
    half = 800 * 64
    block = half / 40  # the last half of the common samples has 40 blocks
    for parity, side in ((1, before), (0, after)):
        side.gauges["loss"] = [
            (samples, value)
            for samples, value in side.gauges["loss"]
            if samples != half and (samples - half - 1) // block % 2 == parity
        ]
    change = compare_single_gauge(before, after)
    assert change.reason == "the runs have values in fewer than 12 common blocks of samples"
    assert (change.result, change.change) == ("unknown", None)


def test_gauge_of_only_one_run_is_not_compared():
    assert compare_gauges(run(1, name="auc"), run(2)) == []
