"""Tests of reported values, such as a loss, that stop being numbers."""

import pytest

from tests.build import rank_state
from zmon.job.reported_values import ReportedValues


def reporting(step, *values):
    """Return ranks that report these losses in a step. `...` stands for a rank that reports nothing."""
    reports = [{} if value is ... else {"loss": value} for value in values]
    return [rank_state(rank, step=step, report=report) for rank, report in enumerate(reports)]


def falling(*steps, ranks=1):
    """Return the passes of a loss that changes in each of these steps."""
    return [reporting(step, *[1 / step] * ranks) for step in steps]


RARELY = [reporting(step, 1 / (step // 100)) for step in range(100, 400, 4)]  # every hundred steps
CASES = {  # passes of the hub, and the steps with NaN after the last one
    "finite values": ([reporting(1, 0.7), reporting(9, 0.6)], None),
    "steps are counted and not passes": (
        [*falling(98, 99, 100), reporting(140, None), *[reporting(150, None)] * 20], 50),
    "the rank with NaN for the longest time counts": (
        [*falling(98, 99, ranks=2), reporting(104, None, 1 / 104), reporting(105, None, 1 / 105),
         reporting(110, None, None)], 11),
    "a finite value ends the count": ([reporting(1, 0.7), reporting(9, None), reporting(10, 0.6)], None),
    "never finite": ([reporting(100, None), reporting(120, None)], 20),
    # the value stays for a hundred steps until the next report, and counts once it must have been reported twice
    "a single NaN of a job that reports rarely": (
        [*RARELY, *(reporting(step, None) for step in range(400, 500, 4))], None),
    "NaN of a job that reports rarely": (
        [*RARELY, *(reporting(step, None) for step in range(400, 500, 4)), reporting(600, None)], 204),
    "constant values are finite": ([*(reporting(step, 0.0) for step in range(100)), reporting(110, None)], 11),
    "a key that vanished counts again": ([*falling(98, 99), reporting(200, ...), reporting(300, None)], 0),
    "a rank returns to a checkpoint": ([reporting(500, 0.5), reporting(100, None)], None),
    "a rank goes": ([reporting(10, 0.5, 0.5), reporting(20, ..., None)], 10),
    "a rank goes and comes": ([reporting(10, 0.5, 0.5), reporting(20, ..., None), reporting(30, None, None)], 20),
}  # fmt: skip


@pytest.mark.parametrize(("passes", "num_steps"), CASES.values(), ids=CASES)
def test_steps_in_which_a_rank_has_reported_nan_are_counted(passes, num_steps):
    reported = ReportedValues()
    *_, result = [reported.not_finite(ranks) for ranks in passes]
    assert result == ({} if num_steps is None else {"loss": num_steps})


def test_each_key_has_a_count():
    reported = ReportedValues()
    for step in (100, 120):
        result = reported.not_finite([rank_state(0, step=step, report={"auc": None, "loss": 0.5})])
    assert result == {"auc": 20}
