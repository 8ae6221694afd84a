"""Tests of the jobs that the hub's /metrics shows, and of the page for the others."""

from dataclasses import replace

import pytest

from tests.build import dead, finding, rank_state, snapshot
from tests.metrics.scene import JOB_VIEW, series, value
from zmon.hub.api.answers import MAX_JOBS, exported_jobs
from zmon.metrics import STEP_SECONDS_BOUNDS, HubPage, hub_page

COUNTS = [0] * len(STEP_SECONDS_BOUNDS) + [1]


def ended(number):
    """Return the snapshot of a job whose only rank has ended; a larger number is a later start."""
    return snapshot(dead(0, 60.0, job_id=f"loop-{number}", start=2e9 + number, world_size=1))


ADS = snapshot(rank_state(0, job_id="ads", start=1.0))
LARGE = snapshot(*(rank_state(rank, job_id="large", start=1.0) for rank in range(4)))
SMALL = snapshot(rank_state(0, job_id="small", start=9.0))


LIMITS = {
    "all of a few": ([ADS, ended(1)], MAX_JOBS, {"ads", "loop-1"}),
    "the living, then the newest": ([*(ended(number) for number in range(9)), ADS], 2, {"ads", "loop-8"}),
    "the largest of the living": ([SMALL, LARGE], 1, {"large"}),
}


@pytest.mark.parametrize(("jobs", "most", "shown"), LIMITS.values(), ids=LIMITS)
def test_a_limited_number_of_jobs_is_shown(jobs, most, shown):
    assert exported_jobs(jobs, most) == shown


def test_ids_that_change_each_second_do_not_make_the_page_grow():
    assert len(exported_jobs([ended(number) for number in range(900)])) == MAX_JOBS


def test_job_that_is_left_out_has_only_coverage_and_findings():
    """The backstop for a stall reads the coverage. A finding pages, however many jobs there are."""
    other = replace(JOB_VIEW, job_id="other")
    state = HubPage(
        jobs=[JOB_VIEW], histograms={"job": (COUNTS, 1.0)}, findings=[finding(job_id="other")], left_out_jobs=[other]
    )
    text = hub_page(state).decode()
    assert value(text, "zmon_jobs_left_out") == 1
    assert value(text, "zmon_hub_coverage_ratio", job_id="other") == 0.75
    assert value(text, "zmon_job_info", job_id="other") is None
    assert len(series(text, "zmon_finding")) == 1
    assert sum('job_id="other"' in line for line in text.splitlines()) == 2


def test_page_of_all_jobs_says_that_none_is_left_out():
    assert value(hub_page(HubPage(jobs=[JOB_VIEW])).decode(), "zmon_jobs_left_out") == 0
