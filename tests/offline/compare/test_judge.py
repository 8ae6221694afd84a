"""A slowdown of 3 % is found in steps that are alike for a while and drift; equal runs are left alone."""

from dataclasses import replace

import pytest

from tests.offline.compare.runs import log
from zmon.offline.compare import compare, series
from zmon.offline.compare.judge import WORTH_TELLING

ROUGH = {"spread": 0.06, "like_the_last": 0.8, "drift": 0.02}


def run(seed, name="a", **how):
    return series(name, log(seed, **how))


def changes(before, after):
    return {change.name: change for change in compare(before, after)}


@pytest.mark.parametrize("seed", range(5))
def test_three_percent_are_found_and_its_cause(seed):
    found = changes(run(seed), run(100 + seed, slower=0.03))
    step = found["step_seconds"]
    assert step.verdict == "slower"
    assert abs(step.change - 0.03) <= step.half_width
    assert found["backward"].verdict == "slower"
    assert found["backward"].change == pytest.approx(step.change, abs=0.01)
    assert found["samples_per_second"].verdict == "slower"
    assert found["all_to_all"].verdict == found["data"].verdict == "alike"


@pytest.mark.parametrize("seed", range(10))
def test_equal_runs_are_alike(seed):
    verdicts = {change.verdict for change in compare(run(2 * seed), run(2 * seed + 1))}
    assert verdicts == {"alike"}


@pytest.mark.parametrize("seed", range(10))
def test_rougher_runs_that_are_equal_are_never_told_apart(seed):
    verdicts = {change.verdict for change in compare(run(2 * seed, **ROUGH), run(2 * seed + 1, **ROUGH))}
    assert verdicts <= {"alike", "unknown"}


def test_three_percent_are_found_in_rough_runs_too():
    found = [changes(run(n, **ROUGH), run(50 + n, slower=0.03, **ROUGH))["step_seconds"].verdict for n in range(10)]
    assert found.count("slower") >= 8
    assert "faster" not in found


def test_faster_is_the_same_the_other_way_round():
    found = changes(run(1, slower=0.03, part="all_to_all"), run(2))
    assert (
        found["step_seconds"].verdict == found["all_to_all"].verdict == found["samples_per_second"].verdict == "faster"
    )


def test_parts_of_a_change_sum_to_it():
    step, *others = compare(run(1), run(2, slower=0.05))
    parts = sum(change.after - change.before for change in others if change.unit == "s")
    assert parts == pytest.approx(step.after - step.before, abs=1e-9)


def test_what_takes_less_and_what_takes_more_is_told_where_the_step_is_alike():
    """Compressed transfers, say: less on the wire, as much more to compute."""
    before, after = run(1, slower=0.05, part="all_to_all"), run(2, slower=0.05, part="forward")
    found = changes(before, after)
    assert found["step_seconds"].verdict == "alike"
    assert (found["all_to_all"].verdict, found["forward"].verdict) == ("faster", "slower")


def test_pauses_move_nothing():
    """One step in nineteen waits for something that is not the step's."""
    before, after = run(1), run(2)
    paused = replace(after, seconds=[s + (1.0 if n % 19 == 0 else 0.0) for n, s in enumerate(after.seconds)])
    assert changes(before, paused)["step_seconds"].verdict == "alike"


def test_few_steps_are_too_few_and_rough_means_are_told():
    (step,) = compare(run(1), run(2, slower=0.5, steps=59))
    assert (step.verdict, step.half_width) == ("unknown", None)
    assert "59 whole steps are too few" in step.reason
    assert step.before == pytest.approx(0.042, rel=0.1)


def test_no_step_at_all_is_no_number():
    empty = replace(run(1, steps=80), steps=(), seconds=(), samples=None, causes={})
    (step,) = compare(empty, run(2, steps=80))
    assert (step.verdict, step.before, step.change) == ("unknown", None, None)


def test_noise_that_hides_a_change_is_unknown_not_alike():
    loud = {"spread": 0.5, "like_the_last": 0.95}
    step = changes(run(1, **loud), run(2, **loud))["step_seconds"]
    assert step.verdict == "unknown"
    assert "let both run longer" in step.reason


def test_other_numbers_of_ranks_are_compared_a_rank_as_well():
    found = changes(run(1, ranks=2), run(2, ranks=4, slower=0.10))
    assert found["samples_per_second"].verdict == "faster"  # twice the samples
    assert found["samples_per_second_per_rank"].verdict == "slower"
    assert found["samples_per_second_per_rank"].change == pytest.approx(-0.10, abs=0.04)


def test_samples_that_nobody_tells_are_not_compared():
    assert "samples_per_second" not in changes(run(1, samples=None), run(2))
    assert "samples_per_second" not in changes(run(1, samples=0), run(2, samples=0))


def test_two_parts_of_one_run_have_no_steps_in_common():
    whole = run(1)
    halves = [
        replace(whole, steps=whole.steps[part], seconds=whole.seconds[part], samples=None, causes={})
        for part in (slice(0, 1000), slice(1000, None))
    ]
    assert compare(*halves)[0].verdict == "alike"


def test_the_same_steps_are_compared_where_one_run_goes_on_for_longer():
    """Its later steps are slower, and the other never came so far."""
    short, long = run(1, steps=1000), run(2)
    late = replace(long, seconds=[s * (1.5 if n > 1000 else 1) for n, s in zip(long.steps, long.seconds, strict=True)])
    assert changes(short, late)["step_seconds"].verdict == "alike"


def test_below_what_two_equal_runs_differ_by_nothing_is_told():
    quiet = {"spread": 0.001, "drift": 0.0}
    step = changes(run(1, **quiet), run(2, slower=0.9 * WORTH_TELLING, **quiet))["step_seconds"]
    assert (step.verdict, step.change > step.half_width) == ("alike", True)
