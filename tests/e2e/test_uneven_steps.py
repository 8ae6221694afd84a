"""Test of a real job whose loader is late on a random rank in each step: it is reported, and no rank is named."""

from pathlib import Path

import pytest

from tests.e2e.endings import await_finding

pytestmark = pytest.mark.slow
SCRIPT = str(Path(__file__).parent / "uneven_loader.py")
LATE_SECONDS = "0.2"  # of one rank of four: about 60 % of a step, whose cost is checked below


@pytest.mark.timeout(200)
def test_loader_that_is_late_on_a_random_rank_in_each_step_names_nobody(stack, start_job):
    job = start_job(SCRIPT, LATE_SECONDS)
    loss = await_finding(stack, job.job_id, cause="input_jitter", severity="warning")
    assert (loss["detector"], loss["ranks"], loss["hosts"]) == ("imbalance", [], [])
    assert 0.4 <= loss["evidence"]["cost_ratio"] <= 0.7
    assert loss["evidence"]["lost_ratio_by_phase"]["data"] > 0.9
    everything = stack.findings(job.job_id, active=False)
    assert [finding["cause"] for finding in everything if finding["ranks"] or finding["hosts"]] == []
