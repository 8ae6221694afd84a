"""Tests of reported values, such as a loss, that stop being numbers."""

import pytest

from tests.build import rank_state
from zmon.job.reported_values import ReportedValues

NAN = None  # in a report
NOTHING = ...


def reporting(step, *losses):
    """Return ranks that report these losses in a step, or NOTHING."""
    reports = [{} if loss is NOTHING else {"loss": loss} for loss in losses]
    return [rank_state(rank, step=step, report=report) for rank, report in enumerate(reports)]


def falling(*steps, ranks=1):
    """Return the passes of a job whose ranks report a lower loss in each of these steps."""
    return [reporting(step, *[1 / step] * ranks) for step in steps]


RARELY = [reporting(step, 1 / (step // 100)) for step in range(100, 400, 4)]  # a new loss every hundred steps
ONE_NAN = [*RARELY, *(reporting(step, NAN) for step in range(400, 500, 4))]
CASES = {  # the ranks in each pass of the hub, and for how many steps one has reported NaN (None: it does not count)
    "finite values": ([reporting(1, 0.7), reporting(9, 0.6)], None),
    "steps are counted and not passes": (
        [*falling(98, 99, 100), reporting(140, NAN), *[reporting(150, NAN)] * 20], 150 - 100),
    "the rank with NaN for the longest time counts": (
        [*falling(98, 99, ranks=2), reporting(104, NAN, 1 / 104), reporting(105, NAN, 1 / 105),
         reporting(110, NAN, NAN)], 110 - 99),
    "a finite value ends the count": ([reporting(1, 0.7), reporting(9, NAN), reporting(10, 0.6)], None),
    "never finite": ([reporting(100, NAN), reporting(120, NAN)], 120 - 100),
    # The hub reads each report for a hundred steps, so only NaN for two hundred steps must have been reported twice.
    "a single NaN of a job that reports rarely": (ONE_NAN, None),
    "NaN of a job that reports rarely": ([*ONE_NAN, reporting(600, NAN)], 600 - 396),
    "constant values are finite": ([*(reporting(step, 0.0) for step in range(100)), reporting(110, NAN)], 110 - 99),
    "a missing key starts again": ([*falling(98, 99), reporting(200, NOTHING), reporting(300, NAN)], 300 - 300),
    "a rank returns to a checkpoint": ([reporting(500, 0.5), reporting(100, NAN)], None),
    "a rank is missing": ([reporting(10, 0.5, 0.5), reporting(20, NOTHING, NAN)], 20 - 10),
    "a rank returns": ([reporting(10, 0.5, 0.5), reporting(20, NOTHING, NAN), reporting(30, NAN, NAN)], 30 - 10),
}  # fmt: skip


@pytest.mark.parametrize(("passes", "num_steps"), CASES.values(), ids=CASES)
def test_steps_since_the_last_number_of_a_rank_are_counted(passes, num_steps):
    reported = ReportedValues()
    *_, result = [reported.not_finite(ranks) for ranks in passes]
    assert result == ({} if num_steps is None else {"loss": num_steps})


def test_each_key_with_nan_has_its_own_count():
    reported = ReportedValues()
    for step, loss in ((100, 0.5), (110, 0.5), (130, NAN)):
        result = reported.not_finite([rank_state(0, step=step, report={"auc": NAN, "loss": loss, "norm": 0.1})])
    assert result == {"auc": 130 - 100, "loss": 130 - 110}
