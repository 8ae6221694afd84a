"""Tests of the work of real jobs relative to the peak of this machine's processors, as the stack shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PEAK_FLOPS
from tests.e2e.plain_loop import FLOPS
from tests.e2e.running_stack import Job, RunningStack, wait_for

pytestmark = pytest.mark.slow
SCRIPT = str(Path(__file__).parent / "plain_loop.py")


def test_job_that_says_nothing_is_counted_in_one_step_and_has_no_finding(stack, start_job):
    job = start_job(SCRIPT, ranks=2)
    stack.await_steps(job, 200)
    view = wait_for("its work is known", lambda: _working(stack, job), 10)
    work = view["utilization"]
    assert work["source"] == "counted"
    assert work["step_ratio"] == pytest.approx(work["flops_per_second"] / PEAK_FLOPS)
    assert work["flops_per_second"] * view["step_seconds"] == pytest.approx(2 * FLOPS, rel=0.2)  # its steps vary
    assert 0 < work["wall_ratio"] < 1.2 * work["step_ratio"]
    series = wait_for("it is scraped", lambda: stack.query(f'zmon_job_flops_ratio{{job_id="{job.job_id}"}}'), 10)
    assert {(each["metric"]["source"], each["metric"]["per"]) for each in series} == {
        ("counted", "step"), ("counted", "wall")
    }  # fmt: skip
    assert stack.findings(job.job_id, active=False) == []


def test_trainer_declares_its_operations_and_its_memory_traffic(stack, training):
    work = wait_for("its work is known", lambda: _working(stack, training), 20)["utilization"]
    assert work["source"] == "declared"
    assert 0 < work["step_ratio"] < 1
    assert work["memory_ratio"] > 0
    assert work["roofline_ratio"] > 0


def _working(stack: RunningStack, job: Job) -> dict[str, Any] | None:
    view = stack.job(job.job_id)
    return view if view and view["utilization"] else None
