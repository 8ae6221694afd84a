"""Tests of the time that a step loses because its ranks take unequally long."""

from dataclasses import astuple

import pytest

from tests.build import job_steps
from tests.steps import changed
from zmon.job.baseline import step_window
from zmon.job.lost_time import LastingLoss, lasting_loss, lost_seconds
from zmon.schema.aligned_step import StepWindow


def step(*own, until=0.100, op="all_reduce"):
    """Return a step of ranks with these self times, which wait for each other until the end of the step."""
    (only,) = job_steps(1, *({"phases": {"forward": each}, "ops": {op: until - each}} for each in own))
    return only


def windows(*ratios, seconds=5.0):
    return tuple(StepWindow(50, seconds / 50, 0.05, 0.01, 0.02, None, ratio) for ratio in ratios)


@pytest.mark.parametrize(
    ("own", "exposed", "lost"),
    [
        ((0.080, 0.040), ..., 0.020),
        ((0.080, 0.040, 0.040, 0.040), ..., 0.030),
        ((0.050, 0.050), ..., 0),
        # no more than the ranks waited: they do not meet in this step, or only for a moment
        ((0.080, 0.040), {}, 0),
        ((0.080, 0.040), {"all_reduce": (0.010, 0.014)}, 0.002),
    ],
)
def test_step_loses_what_the_slowest_rank_takes_beyond_the_mean(own, exposed, lost):
    uneven = step(*own)
    assert lost_seconds(uneven if exposed is ... else changed(uneven, exposed=exposed)) == pytest.approx(lost)


def test_step_window_has_the_share_of_its_time_that_is_lost():
    assert step_window([step(0.080, 0.040), step(0.060, 0.060)]).lost_ratio == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ((0.0, 0.0, 0.0, 0.0, 0.3, 0.3, 0.3, 0.3), LastingLoss(0.3, 6, 20)),
        ((0.9, 0.2, 0.2), LastingLoss(0.2, 3, 15)),
        ((0.2, 0.9, 0.2, 0.2), LastingLoss(0.2, 4, 20)),  # a pause of a host makes no large loss of a small one
        ((0.9, 0.05, 0.05), None),  # the window that lost most does not count
        ((0.05, 0.9, 0.05), None),
        ((), None),
        ((0.5, 0.5), None),
        ((0.5, 0.5, None), None),
    ],
)
def test_loss_lasts_for_as_long_as_the_windows_lose_that_much(ratios, expected):
    loss = lasting_loss(windows(*ratios), 3, 0.1)
    assert (loss and astuple(loss)) == (expected and pytest.approx(astuple(expected)))
