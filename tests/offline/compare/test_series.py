"""Tests of the columns of a run. Incomplete steps are left out, and missing data becomes a caveat."""

import pytest

from tests.offline.compare.runs import log
from zmon.offline.compare import series


def test_columns_have_all_steps_of_the_run():
    run = series("a", log(1, steps=50))
    assert (run.world_size, list(run.steps)) == (2, list(range(1, 51)))
    assert run.samples == [128] * 50  # 64 of each rank
    assert run.caveats == ()


def test_step_missing_on_a_rank_is_left_out():
    steps_log = log(1, steps=50)
    numbers = steps_log.steps[0, 1].column("step")
    steps_log.steps[0, 1] = steps_log.steps[0, 1].select([row for row, step in enumerate(numbers) if step != 7])
    assert 7 not in series("a", steps_log).steps


def test_log_without_a_rank_has_no_complete_step():
    steps_log = log(1, steps=50, ranks=3)
    del steps_log.steps[0, 1]
    run = series("a", steps_log)
    assert list(run.steps) == []
    assert "2 of 3 ranks are in the log" in run.caveats[0]


def test_longest_attempt_is_used():
    steps_log, again = log(1, steps=50), log(2, steps=80)
    steps_log.steps.update({(1, rank): steps for (_, rank), steps in again.steps.items()})
    run = series("a", steps_log)
    assert (run.attempt, len(run.steps)) == (1, 80)
    assert run.caveats == ("the job was launched 2 times; attempt 1 is used, the longest",)


def test_log_without_exposed_time_has_no_categories():
    steps_log = log(1, steps=50)
    steps_log.has_exposed_time = False
    run = series("a", steps_log)
    assert run.causes == {}
    assert "where the time went is unknown" in run.caveats[0]


def test_samples_are_unknown_if_a_rank_reports_none():
    steps_log = log(1, steps=5)
    steps_log.steps[0, 1] = log(1, steps=5, samples=None).steps[0, 1]
    assert series("a", steps_log).samples is None


def test_gauges_are_those_of_the_lowest_rank_by_samples():
    steps_log = log(1, steps=5)
    steps_log.reported[0, 1] = {2: {"loss": 9.0, "auc": 0.7}}
    steps_log.reported[0, 0] = {1: {"loss": 0.5}, 3: {"loss": 0.4}}
    assert series("a", steps_log).gauges == {"loss": [(128, 0.5), (384, 0.4)], "auc": [(256, 0.7)]}


def test_gauges_of_a_thinned_log_keep_their_samples():
    """Every second step was read; the loss was reported in the others."""
    whole, thin = log(1, steps=40), log(1, steps=40)
    thin.steps = {key: steps.select(range(1, 40, 2)) for key, steps in thin.steps.items()}
    for steps_log in (whole, thin):
        steps_log.reported[0, 0] = {n: {"loss": 1 / n} for n in range(11, 40, 2)}
    samples, thinned = ({value: x for x, value in series("a", steps_log).gauges["loss"]} for steps_log in (whole, thin))
    assert all(abs(samples[value] - thinned[value]) <= 128 for value in samples)


def test_gauges_of_a_log_that_begins_late_keep_their_samples():
    late = log(1, steps=40)
    late.steps = {key: steps.select(range(20, 40)) for key, steps in late.steps.items()}
    late.reported[0, 0] = {30: {"loss": 0.5}}
    assert series("a", late).gauges == {"loss": [(30 * 128, 0.5)]}


@pytest.mark.parametrize("samples", [None, 0])
def test_gauges_of_a_run_without_samples_are_by_step(samples):
    steps_log = log(1, steps=5, samples=samples)
    steps_log.reported[0, 0] = {1: {"loss": 0.5}, 3: {"loss": 0.4}}
    assert series("a", steps_log).gauges == {"loss": [(1, 0.5), (3, 0.4)]}
