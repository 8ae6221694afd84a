"""Tests of the time that a step loses because its ranks take unequally long."""

import pytest

from tests.build import job_steps
from tests.steps import changed
from zmon.job.baseline import step_window
from zmon.job.lost_time import lasting_loss, lost_seconds
from zmon.schema.aligned_step import StepWindow


def step(*own, until=0.100, op="all_reduce"):
    """Return a step of ranks with these self times, which wait for each other until the end of the step."""
    (only,) = job_steps(1, *({"phases": {"forward": each}, "ops": {op: until - each}} for each in own))
    return only


def windows(*ratios, seconds=5.0):
    return tuple(StepWindow(50, seconds / 50, 0.05, 0.01, 0.02, None, ratio) for ratio in ratios)


def test_step_loses_what_the_slowest_rank_takes_beyond_the_mean():
    assert lost_seconds(step(0.080, 0.040)) == pytest.approx(0.020)
    assert lost_seconds(step(0.080, 0.040, 0.040, 0.040)) == pytest.approx(0.030)
    assert lost_seconds(step(0.050, 0.050)) == 0


def test_step_loses_no_more_than_its_ranks_waited():
    """The ranks do not meet in this step, or only for a moment."""
    uneven = step(0.080, 0.040)
    assert lost_seconds(changed(uneven, exposed={})) == 0
    assert lost_seconds(changed(uneven, exposed={"all_reduce": (0.010, 0.014)})) == pytest.approx(0.002)


def test_step_window_has_the_share_of_its_time_that_is_lost():
    assert step_window([step(0.080, 0.040), step(0.060, 0.060)]).lost_ratio == pytest.approx(0.1)


def test_loss_lasts_for_as_long_as_the_windows_lose_that_much():
    loss = lasting_loss(windows(0.0, 0.0, 0.0, 0.0, 0.3, 0.3, 0.3, 0.3), 3, 0.1)
    assert loss.seconds == pytest.approx(20)
    assert loss.lost_seconds == pytest.approx(6)
    assert loss.ratio == pytest.approx(0.3)


def test_window_that_lost_most_does_not_count():
    assert lasting_loss(windows(0.9, 0.05, 0.05), 3, 0.1) is None
    assert lasting_loss(windows(0.05, 0.9, 0.05), 3, 0.1) is None
    assert lasting_loss(windows(0.9, 0.2, 0.2), 3, 0.1).ratio == pytest.approx(0.2)


def test_window_that_lost_most_adds_no_more_than_the_second():
    """A pause of a host makes no large loss of a small one."""
    assert lasting_loss(windows(0.2, 0.9, 0.2, 0.2), 3, 0.1).lost_seconds == pytest.approx(4)


@pytest.mark.parametrize("ratios", [(), (0.5, 0.5), (0.5, 0.5, None)], ids=["none", "too few", "unknown"])
def test_loss_is_unknown_without_enough_windows(ratios):
    assert lasting_loss(windows(*ratios), 3, 0.1) is None
