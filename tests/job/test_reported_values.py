"""Tests of reported values, such as a loss, that stop being numbers."""

from tests.build import rank_state
from zmon.job.reported_values import ReportedValues


def reporting(step, rank=0, **report):
    return rank_state(rank, step=step, report=report)


def count_not_finite(*passes):
    """Return the result of the last of these passes of the hub, each a list of ranks."""
    reported, result = ReportedValues(), {}
    for ranks in passes:
        result = reported.not_finite(ranks)
    return result


def test_finite_values_are_not_counted():
    assert count_not_finite([reporting(1, loss=0.7)], [reporting(9, loss=0.6)]) == {}


def test_steps_with_nan_are_counted_and_not_passes():
    well = [[reporting(step, loss=1 / step)] for step in (98, 99, 100)]
    assert count_not_finite(*well, [reporting(140, loss=None)], *[[reporting(150, loss=None)]] * 20) == {"loss": 50}


def test_rank_with_nan_for_the_longest_time_counts():
    ranks = [[reporting(step, 0, loss=1 / step), reporting(step, 1, loss=1 / step)] for step in (98, 99)]
    split = [[reporting(step, 0, loss=None), reporting(step, 1, loss=1 / step)] for step in (104, 105)]
    assert count_not_finite(*ranks, *split, [reporting(110, 0, loss=None), reporting(110, 1, loss=None)]) == {
        "loss": 11
    }


def test_finite_value_ends_the_count():
    assert count_not_finite([reporting(1, loss=0.7)], [reporting(9, loss=None)], [reporting(10, loss=0.6)]) == {}


def test_value_that_was_never_finite_counts_from_the_first_report():
    assert count_not_finite([reporting(100, auc=None)], [reporting(120, auc=None)]) == {"auc": 20}


def test_single_nan_of_a_job_that_reports_rarely_is_ignored():
    """The value stays for a hundred steps until the next report. It counts once it has been reported twice."""
    well = [[reporting(step, loss=1 / (step // 100))] for step in range(100, 400, 4)]
    odd = [[reporting(step, loss=None)] for step in range(400, 500, 4)]
    assert count_not_finite(*well, *odd) == {}
    assert count_not_finite(*well, *odd, [reporting(600, loss=None)]) == {"loss": 204}


def test_constant_value_counts_as_finite():
    assert count_not_finite(*[[reporting(step, loss=0.0)] for step in range(100)], [reporting(110, loss=None)]) == {
        "loss": 11
    }


def test_count_of_a_vanished_key_starts_again():
    well = [[reporting(step, loss=1 / step)] for step in (98, 99)]
    assert count_not_finite(*well, [reporting(200)], [reporting(300, loss=None)]) == {"loss": 0}


def test_return_to_an_earlier_step_resets_the_count():
    """A rank that returns to a checkpoint does not count from its later steps."""
    assert count_not_finite([reporting(500, loss=0.5)], [reporting(100, loss=None)]) == {}


def test_ranks_may_come_and_go_between_passes():
    first = [reporting(10, 0, loss=0.5), reporting(10, 1, loss=0.5)]
    alone = [reporting(20, 1, loss=None)]
    both = [reporting(30, 0, loss=None), reporting(30, 1, loss=None)]
    assert count_not_finite(first, alone) == {"loss": 10}
    assert count_not_finite(first, alone, both) == {"loss": 20}
