"""Test of a real job whose loader is late on a random rank in each step: it is reported, and no rank is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.running_stack import Job, RunningStack, wait_for

pytestmark = pytest.mark.slow
SCRIPT = str(Path(__file__).parent / "uneven_loader.py")
LATE_SECONDS = "0.2"  # of one rank of four: about 60 % of a step, whose cost is checked below


@pytest.mark.timeout(200)
def test_loader_that_is_late_on_a_random_rank_in_each_step_names_nobody(
    stack: RunningStack, start_job: Callable[..., Job]
) -> None:
    job = start_job(SCRIPT, LATE_SECONDS)
    loss = wait_for("it is reported as a warning", lambda: _warning(stack, job), 150)
    assert (loss["detector"], loss["ranks"], loss["hosts"]) == ("imbalance", [], [])
    assert 0.4 <= loss["evidence"]["cost_ratio"] <= 0.7
    assert loss["evidence"]["lost_ratio_by_phase"]["data"] > 0.9
    everything = stack.findings(job.job_id, active=False)
    assert [finding["cause"] for finding in everything if finding["ranks"] or finding["hosts"]] == []


def _warning(stack: RunningStack, job: Job) -> dict[str, object] | None:
    findings = [finding for finding in stack.findings(job.job_id) if finding["cause"] == "input_jitter"]
    return next((finding for finding in findings if finding["severity"] == "warning"), None)
