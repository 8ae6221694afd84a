"""The hub's page tells a job's efficiency with what it is held against, or nothing."""

from dataclasses import replace

from tests.metrics.scene import JOB_VIEW, hub, series, value
from zmon.schema.curve import Efficiency, Point
from zmon.schema.expected import Expected

ALONE = Point(ranks=1, samples=512, seconds=0.02, by="zmon scaling", recorded=1.8e9)
FOUND = Efficiency(ratio=0.8, scaling="weak", name="ranker", reference=ALONE, recorded=0.95)


def test_efficiency_has_its_kind_of_scaling_and_what_it_is_held_against():
    text = hub(jobs=(replace(JOB_VIEW, efficiency=FOUND),))
    assert value(text, "zmon_job_efficiency_ratio", scaling="weak") == 0.8
    assert value(text, "zmon_job_baseline_efficiency_ratio", scaling="weak") == 0.95
    assert value(text, "zmon_job_baseline_info", baseline="ranker", ranks="1", samples="512") == 1


def test_unknown_efficiency_is_absent():
    assert not series(hub(), "zmon_job_efficiency_ratio")
    assert not series(hub(), "zmon_job_baseline_info")


def test_size_that_nobody_recorded_has_nothing_to_be_judged_against():
    text = hub(jobs=(replace(JOB_VIEW, efficiency=replace(FOUND, recorded=None)),))
    assert series(text, "zmon_job_efficiency_ratio")
    assert not series(text, "zmon_job_baseline_efficiency_ratio")


def test_expected_step_is_told_by_cause_and_by_how_it_is_known():
    step = Expected("predicted", "ranker", 0.041, {"own": 0.03, "all_to_all": 0.011}, 0.058, {"own": 0.058})
    text = hub(jobs=(replace(JOB_VIEW, expected=step),))
    assert value(text, "zmon_job_expected_step_seconds", by="predicted", cause="all_to_all") == 0.011
    assert not series(hub(), "zmon_job_expected_step_seconds")
