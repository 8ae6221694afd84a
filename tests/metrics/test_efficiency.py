"""Tests of the efficiency of a job on the hub's page. An unknown efficiency has no series."""

from dataclasses import replace

from tests.metrics.scene import JOB_VIEW, hub, series, value
from zmon.schema.curve import Efficiency, Point
from zmon.schema.job import ExpectedStep

ALONE = Point(ranks=1, samples=512, seconds=0.02, by="zmon scaling", recorded=1.8e9)
EFFICIENCY = Efficiency(ratio=0.8, scaling="weak", name="ranker", reference=ALONE, recorded=0.95)


def test_page_shows_efficiency_with_scaling_and_baseline():
    text = hub(jobs=(replace(JOB_VIEW, efficiency=EFFICIENCY),))
    assert value(text, "zmon_job_efficiency_ratio", scaling="weak") == 0.8
    assert value(text, "zmon_job_baseline_efficiency_ratio", scaling="weak") == 0.95
    assert value(text, "zmon_job_baseline_info", baseline="ranker", ranks="1", samples="512") == 1


def test_unknown_efficiency_has_no_series():
    assert not series(hub(), "zmon_job_efficiency_ratio")
    assert not series(hub(), "zmon_job_baseline_info")


def test_size_without_a_recorded_point_has_no_baseline_efficiency():
    text = hub(jobs=(replace(JOB_VIEW, efficiency=replace(EFFICIENCY, recorded=None)),))
    assert series(text, "zmon_job_efficiency_ratio")
    assert not series(text, "zmon_job_baseline_efficiency_ratio")


def test_expected_step_has_series_by_cause_and_by_origin():
    step = ExpectedStep(
        "predicted", "ranker", seconds=0.041, causes={"own": 0.03, "all_to_all": 0.011},
        now_seconds=0.058, now_causes={"own": 0.058},
    )  # fmt: skip
    text = hub(jobs=(replace(JOB_VIEW, expected=step),))
    assert value(text, "zmon_job_expected_step_seconds", by="predicted", cause="all_to_all") == 0.011
    assert not series(hub(), "zmon_job_expected_step_seconds")
