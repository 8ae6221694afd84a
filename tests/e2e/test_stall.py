"""A rank freezes or dies in a real job: the right rank is named within seconds, paged, and resolved; else silence."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import HOST, Job, Running, wait_for

FINDING_SECONDS = 5.0  # of issue and drill alike, from the fault to the finding and to the page


def finding(stack: Running, job: Job, cause: str) -> Any:
    """The active finding of that cause, if there is one."""
    return next((f for f in stack.findings(job.job_id) if f["cause"] == cause), None)


def assert_paged(stack: Running, job: Job, rank: int, struck: float) -> None:
    """One firing alert of the stall reached the webhook and names the rank."""
    alerts = wait_for("a page", lambda: stack.webhook.alerts(job.job_id, "firing"), 2 * FINDING_SECONDS)
    assert {a["labels"]["alertname"] for a in alerts} == {"ZmonStall"}
    assert alerts[0]["labels"]["severity"] == "critical"
    assert f"rank {rank}" in alerts[0]["annotations"]["summary"]
    print(f"fault → page {time.time() - struck:.1f} s")


@pytest.mark.parametrize("rank", [0, 2])
def test_stopped_rank_is_named_paged_and_resolved(stack: Running, training: Job, rank: int) -> None:
    pid = stack.ranks(training.job_id)[rank]["pid"]
    os.kill(pid, signal.SIGSTOP)
    struck = time.time()
    try:
        found = wait_for("rank_frozen", lambda: finding(stack, training, "rank_frozen"), FINDING_SECONDS)
        print(f"fault → finding {time.time() - struck:.1f} s")
        assert found["ranks"] == [rank]
        assert found["hosts"] == [HOST]
        assert found["severity"] == "critical"
        assert f"kill -CONT {pid}" in found["detail"]
        assert_paged(stack, training, rank, struck)
        shown = stack.zmon("status")
        assert shown.returncode == 1
        assert f"rank {rank} on {HOST} froze" in " ".join(shown.stdout.split())
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for("the finding resolves", lambda: not stack.findings(training.job_id), 30)
    wait_for("the alert resolves", lambda: stack.webhook.alerts(training.job_id, "resolved"), 60)
    assert len({f["id"] for f in stack.findings(training.job_id, active=False)}) == 1


def test_rank_stopped_during_initialization_is_named(stack: Running, start_job: Callable[..., Job]) -> None:
    job = start_job()
    ranks = wait_for("rank 0 has a box", lambda: (r := stack.ranks(job.job_id)) and 0 in r and r, 60)
    pid = ranks[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    struck = time.time()
    try:
        found = wait_for("rank_frozen", lambda: finding(stack, job, "rank_frozen"), FINDING_SECONDS)
        assert stack.ranks(job.job_id)[0]["activity"] == "init"
        assert found["ranks"] == [0]
        assert_paged(stack, job, 0, struck)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for("the finding resolves", lambda: not stack.findings(job.job_id), 30)


def test_killed_rank_is_named_and_its_victims_are_not(stack: Running, training: Job) -> None:
    pid = stack.ranks(training.job_id)[1]["pid"]
    os.kill(pid, signal.SIGKILL)
    struck = time.time()
    found = wait_for("rank_exited", lambda: finding(stack, training, "rank_exited"), FINDING_SECONDS)
    assert found["ranks"] == [1]
    assert found["severity"] == "critical"  # no restart left
    assert "SIGKILL" in found["summary"]
    assert_paged(stack, training, 1, struck)
    time.sleep(3)  # the peers are gone by now as well
    assert [f["ranks"] for f in stack.findings(training.job_id)] == [[1]]


def test_raising_rank_is_named_with_its_exception(stack: Running, start_job: Callable[..., Job], tmp_path: Any) -> None:
    script = tmp_path / "raises.py"
    script.write_text(
        "import time, torch, torch.distributed as dist, zmon\n"
        "zmon.attach()\n"
        "dist.init_process_group('gloo')\n"
        "for step in range(10**6):\n"
        "    with zmon.step():\n"
        "        time.sleep(0.02)\n"
        "        if step == 30 and dist.get_rank() == 2:\n"
        "            raise ValueError('bad batch 17')\n"
        "        dist.all_reduce(torch.ones(10))\n"
    )
    job = start_job(str(script))
    found = wait_for("rank_exited", lambda: finding(stack, job, "rank_exited"), 60)
    assert found["ranks"] == [2]
    assert "ValueError: bad batch 17" in found["summary"]


def test_stall_is_quiet_when_the_run_finishes(stack: Running, start_job: Callable[..., Job]) -> None:
    job = start_job("-m", "trainer", "--preset", "demo", "--steps", "60")
    assert job.process.wait(timeout=90) == 0
    time.sleep(4)
    assert stack.findings(job.job_id, active=False) == []
    assert stack.webhook.alerts(job.job_id, "firing") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stall_is_quiet_when_the_owner_ends_the_run(stack: Running, training: Job, number: int) -> None:
    training.end(number)
    time.sleep(4)
    assert stack.findings(training.job_id, active=False) == []
    assert stack.webhook.alerts(training.job_id, "firing") == []
