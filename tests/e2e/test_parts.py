"""Tests of killed parts. They start again, the hub keeps its finding and pages once, a healthy job has no finding."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.e2e.running_stack import RunningStack, is_up, process_with, wait_for
from zmon.schema.ended_launch import RECOVERY_PHASES


@pytest.mark.parametrize(("word", "url"), [("--storage.tsdb.path", "prometheus"), ("alertmanager.yml", "alertmanager")])
def test_killed_part_is_started_again(stack, word, url):
    before = process_with(stack, word)
    before.kill()
    wait_for("another process answers", lambda: is_up(f"{stack.urls[url]}/-/ready", stack.login), 15)
    assert process_with(stack, word).pid != before.pid


def test_killed_hub_keeps_its_finding_and_pages_once(stack, training):
    with stack.stopped(training, 3) as struck:
        before = wait_for("a finding", lambda: stack.findings(training.job_id, since=struck), 5)
        process_with(stack, "zmon hub").kill()
        wait_for("the hub is back", lambda: is_up(f"{stack.urls['hub']}/healthz"), 15)
        time.sleep(1)
        assert [f["id"] for f in stack.findings(training.job_id)] == [before[0]["id"]]
        wait_for("a page", lambda: stack.alerts(training.job_id, "firing", struck), 10)
    wait_for("the finding resolves", lambda: not stack.findings(training.job_id), 30)
    wait_for("the alert resolves", lambda: stack.alerts(training.job_id, "resolved", struck), 30)
    assert len(stack.alerts(training.job_id, "firing", struck)) == 1


@pytest.mark.slow  # the killed hub is in every run
def test_killed_agent_causes_no_finding_about_a_healthy_job(stack, training):
    killed_at = time.time()
    process_with(stack, "zmon agent").kill()
    wait_for("the agent is back", lambda: is_up(f"{stack.urls['agent']}/healthz"), 15)
    time.sleep(4)
    assert stack.findings(training.job_id, active=False, since=killed_at) == []
    assert (stack.job(training.job_id) or {})["state"] == "train"


def recovery_phases(stack: RunningStack, job_id: str) -> dict[str, float]:
    """Return the seconds of each phase of the job's only restart; none before the hub has its end and first step."""
    ends = json.loads(stack.zmon("ends", job_id, "--json").stdout)["ends"]
    assert len(ends) <= 1
    restart = ends[0]["restart"] if ends else None
    return restart["phases"] if restart else {}


@pytest.mark.slow  # it starts a job twice; tests/hub/test_restarts.py tests restarts without a job
def test_restart_by_the_launcher_opens_a_warning_that_resolves(stack, start_job):
    job = start_job(ranks=2, launcher=("--max-restarts=1",))
    stack.await_steps(job)
    os.kill(stack.ranks(job.job_id)[1]["pid"], signal.SIGKILL)
    findings = wait_for("a finding", lambda: stack.findings(job.job_id), 5)
    assert (findings[0]["cause"], findings[0]["severity"], findings[0]["ranks"]) == ("rank_exited", "warning", [1])
    wait_for("it trains again", lambda: (view := stack.job(job.job_id)) and view["attempt"] == 1, 30)
    wait_for("the finding resolves", lambda: not stack.findings(job.job_id), 30)
    assert {f["severity"] for f in stack.findings(job.job_id, active=False)} == {"warning"}
    assert not [a for a in stack.alerts(job.job_id, "firing") if a["labels"]["alertname"] == "ZmonStall"]
    phases = wait_for("the phases of the recovery", lambda: recovery_phases(stack, job.job_id), 20)
    assert phases.keys() == {*RECOVERY_PHASES}
    assert phases["imports"] > phases["first_step"] > 0  # torch takes a second or more, and a step some milliseconds
