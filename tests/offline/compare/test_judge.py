"""Tests of the comparison of steps. A slowdown of 3 % is detected, and equal runs are alike."""

from dataclasses import replace
from functools import cache

import pytest

from tests.offline.compare.runs import log
from zmon.offline.compare import compare, series
from zmon.offline.compare.judge import MIN_CHANGE

NOISY = {"spread": 0.06, "correlation": 0.8, "drift": 0.02}


@cache
def run(seed, name="a", **options):
    """Return the series of a run, which `log` makes with these options."""
    return series(name, log(seed, **options))


def changes(before, after):
    """Return the changes between two runs by name."""
    return {change.name: change for change in compare(before, after)}


# Only `make test-all` runs the slow seeds.
SEEDS = [pytest.param(seed, marks=pytest.mark.slow if seed >= 3 else ()) for seed in range(10)]


@pytest.mark.parametrize("seed", range(5))
def test_slowdown_of_three_percent_is_detected_with_its_category(seed):
    by_name = changes(run(seed), run(100 + seed, slower=0.03))
    step = by_name["step_seconds"]
    assert step.result == "slower"
    assert abs(step.change - 0.03) <= step.half_width
    assert by_name["backward"].result == "slower"
    assert by_name["backward"].change == pytest.approx(step.change, abs=0.01)
    assert by_name["samples_per_second"].result == "slower"
    assert by_name["all_to_all"].result == by_name["data"].result == "alike"


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_runs_are_alike(seed):
    results = {change.result for change in compare(run(2 * seed), run(2 * seed + 1))}
    assert results == {"alike"}


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_noisy_runs_are_alike_or_unknown(seed):
    results = {change.result for change in compare(run(2 * seed, **NOISY), run(2 * seed + 1, **NOISY))}
    assert results <= {"alike", "unknown"}


def test_slowdown_of_three_percent_is_detected_in_noisy_runs():
    results = [changes(run(n, **NOISY), run(50 + n, slower=0.03, **NOISY))["step_seconds"].result for n in range(10)]
    assert results.count("slower") >= 8
    assert "faster" not in results


def test_speedup_is_detected():
    by_name = changes(run(1, slower=0.03, part="all_to_all"), run(2))
    assert (
        by_name["step_seconds"].result
        == by_name["all_to_all"].result
        == by_name["samples_per_second"].result
        == "faster"
    )


def test_changes_of_categories_sum_to_the_change_of_the_step():
    step, *others = compare(run(1), run(2, slower=0.05))
    parts = sum(change.after - change.before for change in others if change.unit == "s")
    assert parts == pytest.approx(step.after - step.before, abs=1e-9)


def test_opposite_changes_of_categories_are_detected_if_the_step_is_alike():
    """Compressed transfers, for example, take less time on the wire and as much more to compute."""
    before, after = run(1, slower=0.05, part="all_to_all"), run(2, slower=0.05, part="forward")
    by_name = changes(before, after)
    assert by_name["step_seconds"].result == "alike"
    assert (by_name["all_to_all"].result, by_name["forward"].result) == ("faster", "slower")


def paused():
    """Return a run whose every nineteenth step waits for something outside the step."""
    whole = run(2)
    return replace(whole, seconds=[s + (1.0 if n % 19 == 0 else 0.0) for n, s in enumerate(whole.seconds)])


def slower_later():
    """Return a run whose steps after the first 1,000 are slower."""
    whole = run(2)
    steps = zip(whole.steps, whole.seconds, strict=True)
    return replace(whole, seconds=[s * (1.5 if n > 1000 else 1) for n, s in steps])


def steps_of_a_run(part):
    """Return a run that has only a slice of the steps of another run."""
    whole = run(1)
    return replace(whole, steps=whole.steps[part], seconds=whole.seconds[part], samples=None, causes={})


ALIKE = {
    "pauses": (lambda: run(1), paused),
    "longer run": (lambda: run(1, steps=1000), slower_later),  # it is compared at the steps of the shorter run
    "parts of one run": (lambda: steps_of_a_run(slice(0, 1000)), lambda: steps_of_a_run(slice(1000, None))),
}


@pytest.mark.parametrize(("before", "after"), ALIKE.values(), ids=ALIKE)
def test_pauses_lengths_and_step_numbers_of_runs_do_not_count(before, after):
    step, *_ = compare(before(), after())
    assert step.result == "alike"


def test_comparison_of_few_steps_is_unknown():
    (step,) = compare(run(1), run(2, slower=0.5, steps=59))
    assert (step.result, step.half_width) == ("unknown", None)
    assert "59 complete steps are too few" in step.reason
    assert step.before == pytest.approx(0.042, rel=0.1)  # a rough mean


def test_few_common_steps_are_counted_as_such():
    late = run(2, steps=100)
    (step,) = compare(run(1, steps=100), replace(late, steps=[number + 45 for number in late.steps]))
    assert step.reason == "55 common steps are too few: at least 60 are needed"


def test_comparison_without_steps_is_unknown():
    empty = replace(run(1, steps=80), steps=(), seconds=(), samples=None, causes={})
    (step,) = compare(empty, run(2, steps=80))
    assert (step.result, step.before, step.change) == ("unknown", None, None)


def test_change_that_noise_hides_is_unknown():
    loud = {"spread": 0.5, "correlation": 0.95}
    step = changes(run(1, **loud), run(2, **loud))["step_seconds"]
    assert step.result == "unknown"
    assert "let both runs take more steps" in step.reason


def test_runs_with_different_ranks_are_also_compared_per_rank():
    by_name = changes(run(1, ranks=2), run(2, ranks=4, slower=0.10))
    assert by_name["samples_per_second"].result == "faster"  # twice the samples
    assert by_name["samples_per_second_per_rank"].result == "slower"
    assert by_name["samples_per_second_per_rank"].change == pytest.approx(-0.10, abs=0.04)


def test_unknown_samples_are_not_compared():
    assert "samples_per_second" not in changes(run(1, samples=None), run(2))
    assert "samples_per_second" not in changes(run(1, samples=0), run(2, samples=0))


def test_change_below_the_minimum_is_alike():
    quiet = {"spread": 0.001, "drift": 0.0}
    step = changes(run(1, **quiet), run(2, slower=0.9 * MIN_CHANGE, **quiet))["step_seconds"]
    assert (step.result, step.change > step.half_width) == ("alike", True)
