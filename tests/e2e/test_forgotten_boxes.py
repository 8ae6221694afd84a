"""Test of ended jobs whose boxes are gone. Its agent starts anew, so this is no test among those of other ends."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.endings import EndingJobs, await_finding
from tests.e2e.running_stack import RunningStack, is_up, process_with, wait_for

QUIET_SECONDS = 4.0  # a change would have come within this time


@pytest.mark.slow  # tests/hub/test_ended_jobs.py forgets boxes without a job
@pytest.mark.timeout(240)
def test_end_is_shown_after_the_boxes_are_deleted_and_the_agent_has_forgotten_them(
    stack: RunningStack, jobs: EndingJobs
) -> None:
    failed, cancelled = jobs.start("storage"), jobs.start("")
    jobs.await_training(cancelled)
    await_finding(stack, failed.job_id, "rank_exited", "critical")
    failed.process.wait(timeout=60)
    cancelled.signal(signal.SIGTERM)
    cancelled.process.wait(timeout=60)
    time.sleep(QUIET_SECONDS)
    for job in (failed, cancelled):
        shutil.rmtree(Path(stack.env["ZMON_BOX_DIR"]) / job.job_id)
    process_with(stack, "zmon agent").kill()
    wait_for("the agent is back", lambda: is_up(f"{stack.urls['agent']}/healthz"), 15)
    wait_for("it has forgotten the job", lambda: not stack.ranks(failed.job_id), 15)
    time.sleep(QUIET_SECONDS)
    status = stack.zmon("status", "--job", failed.job_id)
    shown = " ".join(status.stdout.split())
    assert (status.returncode, "rank_exited" in shown, "connection refused" in shown) == (1, True, True), shown
    assert stack.job(cancelled.job_id) is None  # no fault ended it, so it went with its boxes
