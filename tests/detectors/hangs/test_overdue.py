"""Tests of the ranks past their lease: in training all ranks share the median lease of those that have learned one."""

from tests.build import rank_state
from zmon.detectors.hangs.overdue import overdue_ranks
from zmon.schema.rank import RankState

LEARNED_STEPS = 5


def training(rank, seconds, lease, **changes):
    """Return a rank without a step for this time, within the lease that its agent judges it by."""
    times = {"step_seconds": seconds, "state_seconds": seconds, "overdue_seconds": 0.0, "lease_seconds": lease}
    return rank_state(rank, **{"activity": "train", "steps": 300, "sequences": {"0": 300}, **times, **changes})


def overdue(*ranks):
    """Return the numbers of the ranks past their lease."""
    return [r.rank for r in overdue_ranks(ranks)]


def test_rank_with_a_long_lease_shares_the_median_lease():
    assert overdue(training(0, 3.0, 2.0), training(1, 3.0, 2.0), training(2, 3.0, 40.0)) == [0, 1, 2]


def test_quiet_while_all_ranks_are_within_the_median_lease():
    assert overdue(training(0, 3.0, 4.0), training(1, 3.0, 4.0), training(2, 3.0, 1.0)) == []


def test_unknown_lease_does_not_count_as_a_lease_of_zero():
    assert overdue(training(0, 3.0, None), training(1, 3.0, None)) == []
    assert overdue(training(0, 3.0, None), training(1, 3.0, None), training(2, 3.0, 4.0)) == []


def test_rank_past_its_own_lease_is_overdue_whatever_the_others_have():
    assert overdue(training(0, 3.0, None, overdue_seconds=1.0), training(1, 3.0, 40.0)) == [0]


def test_rank_without_steps_shares_the_lease_if_it_enters_as_many_collectives():
    worker = training(1, 3.0, 1800.0, steps=0)
    assert overdue(training(0, 3.0, 2.0), worker) == [0, 1]


def test_quiet_about_a_rank_without_steps_that_enters_few_collectives():
    loader = training(1, 3.0, 1800.0, steps=0, sequences={"0": 3})
    assert overdue(training(0, 3.0, 2.0), loader) == [0]


def test_quiet_while_agents_have_observed_less_than_the_lease():
    suspended = {"unobserved_seconds": 59.0}
    ranks = training(0, 60.0, 2.0, **suspended), training(1, 60.0, 2.0, steps=0, **suspended)
    assert overdue(*ranks) == []


def test_each_rank_of_a_large_job_is_looked_at_a_few_times(monkeypatch):
    """At 1,024 ranks these comparisons took 1.2 s of processor time in each pass of the hub."""
    monkeypatch.setattr(RankState, "__eq__", None)  # no rank is compared with another
    assert len(overdue(*(training(rank, 3.0, 2.0, steps=300 * (rank % 2)) for rank in range(1024)))) == 1024
