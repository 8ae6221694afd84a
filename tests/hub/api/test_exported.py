"""Tests of the jobs that the hub's /metrics shows, and of the page for the others."""

from dataclasses import replace

from tests.build import dead, finding, rank_state, snapshot
from tests.metrics.scene import JOB_VIEW, series, value
from zmon.hub.api.answers import MAX_JOBS, exported_jobs
from zmon.metrics import STEP_SECONDS_BOUNDS, hub_page

COUNTS = [0] * len(STEP_SECONDS_BOUNDS) + [1]


def ended(number):
    return snapshot(dead(0, 60.0, job_id=f"loop-{number}", start=2e9 + number, world_size=1))


def test_all_of_a_few_jobs_are_shown():
    assert exported_jobs([snapshot(rank_state(0, job_id="ads")), ended(1)]) == {"ads", "loop-1"}


def test_job_id_that_changes_each_second_shows_a_limited_number_of_jobs():
    jobs = [ended(number) for number in range(900)]
    assert len(exported_jobs(jobs)) == MAX_JOBS


def test_living_jobs_stay_and_then_the_newest_ones():
    jobs = [*(ended(number) for number in range(9)), snapshot(rank_state(0, job_id="ads", start=1.0))]
    assert exported_jobs(jobs, 2) == {"ads", "loop-8"}


def test_largest_of_the_living_jobs_stays():
    large = snapshot(*(rank_state(rank, job_id="large", start=1.0) for rank in range(4)))
    assert exported_jobs([snapshot(rank_state(0, job_id="small", start=9.0)), large], 1) == {"large"}


def test_job_that_is_left_out_has_its_coverage_and_its_findings():
    """The backstop for a stall reads the coverage. A finding pages, however many jobs there are."""
    other = replace(JOB_VIEW, job_id="other")
    text = hub_page(
        [JOB_VIEW], {"job": (COUNTS, 1.0)}, [finding(job_id="other")], 0.0, 1.8e9, "0.1.0", left_out_jobs=[other]
    ).decode()
    assert value(text, "zmon_jobs_left_out") == 1
    assert value(text, "zmon_hub_coverage_ratio", job_id="other") == 0.75
    assert value(text, "zmon_job_info", job_id="other") is None
    assert len(series(text, "zmon_finding")) == 1
    assert sum('job_id="other"' in line for line in text.splitlines()) == 2


def test_page_of_a_hub_with_few_jobs_leaves_none_out():
    assert value(hub_page([JOB_VIEW], {}, [], 0.0, 1.8e9, "0.1.0").decode(), "zmon_jobs_left_out") == 0
