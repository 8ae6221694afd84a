"""Tests of the expected step. It is recorded, otherwise predicted from other sizes, otherwise unknown."""

from dataclasses import replace

import pytest

from tests.scaling.test_fit import point
from zmon.scaling.expected import SELF_TIME, JobSize, expected_step, in_parts
from zmon.schema.curve import IMBALANCE, ScalingCurve
from zmon.schema.job import PREDICTED, RECORDED

CURVE = ScalingCurve("ranker", [replace(point(n, s), ranks_per_host=4) for n, s in ((1, 512), (2, 512), (2, 1024))])
NOW = {"data": 0.001, "forward": 0.010, IMBALANCE: 0.002, "all_to_all": 0.004}


def test_expected_step_of_a_recorded_size_is_recorded():
    step = expected_step(CURVE, JobSize(2, 1000, ranks_per_host=4), 0.017, NOW)
    assert (step.by, step.name) == (RECORDED, "ranker")
    assert step.seconds == pytest.approx(point(2, 1024).seconds * 1000 / 1024)


def test_expected_step_of_another_size_is_predicted():
    step = expected_step(CURVE, JobSize(4, 2048, ranks_per_host=4), 0.017, NOW)
    assert step.by == PREDICTED
    assert step.seconds == pytest.approx(point(4, 2048).seconds, rel=1e-6)
    assert sum(step.causes.values()) == pytest.approx(step.seconds)


def test_phases_are_merged_into_self_time():
    assert in_parts(NOW) == {SELF_TIME: pytest.approx(0.011), IMBALANCE: 0.002, "all_to_all": 0.004}


def test_part_with_the_largest_increase_is_first():
    baseline = expected_step(CURVE, JobSize(2, 1024, ranks_per_host=4), 0.0, {})
    now = {**baseline.causes, "all_to_all": baseline.causes["all_to_all"] + 0.017, "barrier": 0.001}
    part, seconds = expected_step(CURVE, JobSize(2, 1024, ranks_per_host=4), sum(now.values()), now).grown[0]
    assert (part, seconds) == ("all_to_all", pytest.approx(0.017))


@pytest.mark.parametrize(
    ("curve", "ranks", "why"),
    [
        (ScalingCurve("new"), 4, "no run of several ranks"),
        (CURVE, 16, "between hosts"),
        (ScalingCurve("old", [replace(p, causes={}) for p in CURVE.points]), 2, "no run of several ranks"),
    ],
    ids=["empty curve", "several hosts", "no time categories"],
)
def test_unknown_expected_step_has_a_reason(curve, ranks, why):
    assert why in expected_step(curve, JobSize(ranks, 512 * ranks, ranks_per_host=4), 0.017, NOW).reason
