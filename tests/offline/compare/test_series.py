"""Columns of whole steps; what is not whole, not told or not of this start is said, not guessed."""

from tests.offline.compare.runs import log
from zmon.offline.compare import series


def test_columns_are_as_long_as_the_run_and_causes_sum_to_the_step():
    run = series("a", log(1, steps=50))
    assert (run.world_size, list(run.steps)) == (2, list(range(1, 51)))
    for at, seconds in enumerate(run.seconds):
        assert abs(sum(of[at] for of in run.causes.values()) - seconds) < 1e-12
    assert run.samples == [128] * 50
    assert run.caveats == ()


def test_step_that_one_rank_lacks_is_left_out():
    told = log(1, steps=50)
    del told.records[0, 1][7]
    assert 7 not in series("a", told).steps


def test_log_without_one_of_the_ranks_has_no_whole_step_and_says_so():
    told = log(1, steps=50, ranks=3)
    del told.records[0, 1]
    run = series("a", told)
    assert list(run.steps) == []
    assert "2 of 3 ranks are in it" in run.caveats[0]


def test_of_several_starts_the_longest_is_compared_and_that_is_said():
    told, again = log(1, steps=50), log(2, steps=80)
    told.records.update({(1, rank): steps for (_, rank), steps in again.records.items()})
    run = series("a", told)
    assert (run.attempt, len(run.steps)) == (1, 80)
    assert run.caveats == ("it was started 2 times: compared is attempt 1, the longest",)


def test_log_that_does_not_tell_waiting_from_working_has_no_causes():
    told = log(1, steps=50)
    told.blames = False
    run = series("a", told)
    assert run.causes == {}
    assert "where its time went is unknown" in run.caveats[0]


def test_samples_that_one_rank_does_not_tell_are_unknown():
    told = log(1, steps=5)
    told.records[0, 1] = log(1, steps=5, samples=None).records[0, 1]
    assert series("a", told).samples is None


def test_gauges_are_the_lowest_ranks_at_the_samples_of_the_job_so_far():
    told = log(1, steps=5)
    told.reported[0, 1] = {2: {"loss": 9.0, "auc": 0.7}}
    told.reported[0, 0] = {1: {"loss": 0.5}, 3: {"loss": 0.4}}
    assert series("a", told).gauges == {"loss": [(128, 0.5), (384, 0.4)], "auc": [(256, 0.7)]}


def test_gauges_of_a_run_that_tells_no_samples_go_by_steps():
    told = log(1, steps=5, samples=None)
    told.reported[0, 0] = {1: {"loss": 0.5}, 3: {"loss": 0.4}}
    assert series("a", told).gauges == {"loss": [(1, 0.5), (3, 0.4)]}


def test_gauges_of_a_thinned_log_stand_at_the_samples_they_were_told_at():
    """Every second step was read; the loss was told in the others."""
    whole, thin = log(1, steps=40), log(1, steps=40)
    for steps in thin.records.values():
        for number in [n for n in steps if n % 2]:
            del steps[number]
    for told in (whole, thin):
        told.reported[0, 0] = {n: {"loss": 1 / n} for n in range(11, 40, 2)}
    at, thinned = ({value: x for x, value in series("a", told).gauges["loss"]} for told in (whole, thin))
    assert all(abs(at[value] - thinned[value]) <= 128 for value in at)


def test_gauges_of_a_log_that_begins_late_stand_where_they_were_told():
    late = log(1, steps=40)
    for steps in late.records.values():
        for number in range(1, 21):
            del steps[number]
    late.reported[0, 0] = {30: {"loss": 0.5}}
    assert series("a", late).gauges == {"loss": [(30 * 128, 0.5)]}


def test_gauges_of_a_run_whose_samples_are_nothing_go_by_steps():
    told = log(1, steps=5, samples=0)
    told.reported[0, 0] = {3: {"loss": 0.4}}
    assert series("a", told).gauges == {"loss": [(3, 0.4)]}
