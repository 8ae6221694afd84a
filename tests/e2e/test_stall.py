"""Tests of stalls in real jobs: the culprit is named and paged within seconds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.running_stack import HOST, Job, RunningStack, wait_for

# The targets of docs/drills.md are at most 4 s and 5 s, but these tests share the machine with others.
FINDING_SECONDS = 5.0  # from the fault
PAGE_SECONDS = 10.0  # from the finding


def await_frozen(stack: RunningStack, job: Job, stopped_at: float) -> Any:
    """Wait for the finding `rank_frozen` of a rank that was stopped at this unix time, and return it."""
    return wait_for(
        "rank_frozen",
        lambda: [f for f in stack.findings(job.job_id, since=stopped_at) if f["cause"] == "rank_frozen"],
        FINDING_SECONDS,
    )[0]


def assert_paged(stack: RunningStack, job: Job, rank: int, stopped_at: float) -> None:
    """Check that the stall pages as one alert, which names the rank, and that nothing else pages."""
    (alert,) = wait_for("a page", lambda: stack.alerts(job.job_id, "firing", stopped_at), PAGE_SECONDS)
    assert (alert["labels"]["alertname"], alert["labels"]["severity"]) == ("ZmonStall", "critical")
    assert f"rank {rank}" in alert["annotations"]["summary"]


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_stopped_rank_opens_a_finding_that_pages_and_resolves(stack, training, rank):
    pid = stack.ranks(training.job_id)[rank]["pid"]
    stack.await_silence(training)
    with stack.stopped(training, rank) as stopped_at:
        frozen = await_frozen(stack, training, stopped_at)
        assert frozen["ranks"] == [rank]
        assert frozen["hosts"] == [HOST]
        assert frozen["severity"] == "critical"
        assert f"kill -CONT {pid}" in frozen["detail"]
        assert_paged(stack, training, rank, stopped_at)
        status = stack.zmon("status")
        assert status.returncode == 1
        assert f"rank {rank} on {HOST} froze" in " ".join(status.stdout.split())
    wait_for("the finding resolves", lambda: not stack.findings(training.job_id), 30)
    wait_for("the alert resolves", lambda: stack.alerts(training.job_id, "resolved", stopped_at), 60)
    assert {f["id"] for f in stack.findings(training.job_id, active=False, since=stopped_at)} == {frozen["id"]}


@pytest.mark.slow  # the test above stops a rank in every run
def test_rank_stopped_during_initialization_is_the_culprit(stack, start_job):
    job = start_job(ranks=2)
    wait_for("rank 0 has a box", lambda: 0 in stack.ranks(job.job_id), 60)
    with stack.stopped(job, 0) as stopped_at:
        frozen = await_frozen(stack, job, stopped_at)
        assert stack.ranks(job.job_id)[0]["activity"] == "init"
        assert frozen["ranks"] == [0]
        assert_paged(stack, job, 0, stopped_at)
    wait_for("the finding resolves", lambda: not stack.findings(job.job_id), 30)
