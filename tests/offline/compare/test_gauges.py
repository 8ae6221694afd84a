"""A loss that is higher at equal samples is found, whatever noise each run has, and none where there is no number."""

from random import Random

import pytest

from zmon.offline.compare import Series, compare_gauges


def run(seed, higher=0.0, told=200, every=10, samples=64, noise=0.003, name="loss", shift=0):
    """A loss that falls as losses do, told every so many steps."""
    chance = Random(seed)
    points = []
    for n in range(1, told + 1):
        step = n * every + shift
        points.append((step * samples, (0.5 + 0.4 / (1 + step / 50)) * (1 + higher) + chance.gauss(0, noise)))
    return Series("a", "job", 0, 1, (), (), {}, None, {name: points})


def only(before, after):
    (change,) = compare_gauges(before, after)
    return change


def test_loss_that_is_higher_is_found():
    found = only(run(1), run(2, higher=0.005))
    assert found.verdict == "higher"
    assert found.change == pytest.approx(0.005, abs=found.half_width)
    assert only(run(1, higher=0.005), run(2)).verdict == "lower"


@pytest.mark.parametrize("seed", range(10))
def test_equal_runs_are_alike(seed):
    assert only(run(2 * seed), run(2 * seed + 1)).verdict == "alike"


def test_runs_of_other_batch_sizes_are_compared_at_equal_samples():
    """At equal steps the one with the larger batch is further."""
    found = only(run(1, told=400, every=10, samples=64, noise=0.0), run(2, told=400, every=20, samples=32, noise=0.0))
    assert found.before == pytest.approx(found.after, rel=0.02)


def test_run_that_goes_on_for_longer_is_compared_as_far_as_the_other_came():
    assert only(run(1, told=200), run(2, told=800)).verdict == "alike"


def test_runs_that_tell_it_at_other_steps_are_compared():
    assert only(run(1), run(2, shift=5, higher=0.005)).verdict == "higher"


def test_nan_is_unknown():
    broken = run(2)
    broken.gauges["loss"][150] = (broken.gauges["loss"][150][0], float("nan"))
    found = only(run(1), broken)
    assert (found.verdict, found.reason) == ("unknown", "one of the runs told what is no number")


@pytest.mark.parametrize("told", [1, 20, 40])
def test_few_values_are_too_few(told):
    found = only(run(1, told=told), run(2, told=told))
    assert (found.verdict, found.change) == ("unknown", None)
    assert "it takes 24 values of each run" in found.reason


def test_runs_without_samples_in_common_tell_nothing():
    late = run(2, shift=100_000)
    assert only(run(1), late).verdict == "unknown"


def test_gauge_of_one_run_alone_is_not_compared():
    assert compare_gauges(run(1, name="auc"), run(2)) == []


def test_gauge_that_is_nothing_has_no_relative_change():
    nothing = run(1)
    nothing.gauges["loss"] = [(samples, 0.0) for samples, _ in nothing.gauges["loss"]]
    assert only(nothing, run(2)).verdict == "unknown"


@pytest.mark.parametrize("value", [float("inf"), 1.7e308, -1.7e308])
def test_value_that_no_sum_can_hold_is_unknown(value):
    broken = run(2)
    broken.gauges["loss"][150:152] = [(samples, value) for samples, _ in broken.gauges["loss"][150:152]]
    assert only(run(1), broken).verdict == only(broken, run(1)).verdict == "unknown"
