"""Tests of stalls in real jobs. The culprit is found within seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.running_stack import HOST, Job, RunningStack, wait_for

FINDING_SECONDS = 5.0  # the target for fault → finding, and for finding → page


def active_finding(stack: RunningStack, job: Job, cause: str, since: float = 0.0) -> Any:
    """Return the active finding with this cause, or None."""
    return next((f for f in stack.findings(job.job_id, since=since) if f["cause"] == cause), None)


def assert_paged(stack: RunningStack, job: Job, rank: int, struck: float) -> None:
    """Check that one firing alert of the stall reached the webhook and names the rank."""
    alerts = wait_for("a page", lambda: stack.alerts(job.job_id, "firing", struck), 2 * FINDING_SECONDS)
    assert {a["labels"]["alertname"] for a in alerts} == {"ZmonStall"}
    assert alerts[0]["labels"]["severity"] == "critical"
    assert f"rank {rank}" in alerts[0]["annotations"]["summary"]


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_stopped_rank_opens_a_finding_that_pages_and_resolves(stack: RunningStack, training: Job, rank: int) -> None:
    pid = stack.ranks(training.job_id)[rank]["pid"]
    stack.await_silence(training)
    with stack.stopped(training, rank) as struck:
        frozen = wait_for(
            "rank_frozen", lambda: active_finding(stack, training, "rank_frozen", struck), FINDING_SECONDS
        )
        assert frozen["ranks"] == [rank]
        assert frozen["hosts"] == [HOST]
        assert frozen["severity"] == "critical"
        assert f"kill -CONT {pid}" in frozen["detail"]
        assert_paged(stack, training, rank, struck)
        status = stack.zmon("status")
        assert status.returncode == 1
        assert f"rank {rank} on {HOST} froze" in " ".join(status.stdout.split())
    wait_for("the finding resolves", lambda: not stack.findings(training.job_id), 30)
    wait_for("the alert resolves", lambda: stack.alerts(training.job_id, "resolved", struck), 60)
    assert len({f["id"] for f in stack.findings(training.job_id, active=False, since=struck)}) == 1


@pytest.mark.slow  # a stopped rank of the shared job is in every run
def test_rank_stopped_during_initialization_is_the_culprit(stack: RunningStack, start_job: Callable[..., Job]) -> None:
    job = start_job(ranks=2)
    wait_for("rank 0 has a box", lambda: 0 in stack.ranks(job.job_id), 60)
    with stack.stopped(job, 0) as struck:
        frozen = wait_for("rank_frozen", lambda: active_finding(stack, job, "rank_frozen"), FINDING_SECONDS)
        assert stack.ranks(job.job_id)[0]["activity"] == "init"
        assert frozen["ranks"] == [0]
        assert_paged(stack, job, 0, struck)
    wait_for("the finding resolves", lambda: not stack.findings(job.job_id), 30)
