"""Test that a stall causes one page, even if hub, agent and Prometheus are killed during the stall."""

from __future__ import annotations

import time

import pytest

from tests.e2e.running_stack import Job, RunningStack, is_up, process_with, wait_for

pytestmark = pytest.mark.slow  # `tests/stack/test_pages.py` kills the parts while invented findings are open
SETTLED_SECONDS = 10.0  # scrape, evaluation, keep_firing_for, the group's next notification: 8 s at most


def pages(stack: RunningStack, job: Job, since: float) -> list[str]:
    """Return the status of each notification about the job that the pager received."""
    calls = [call for time_, call in stack.webhook.calls if call["receiver"] == "pager" and time_ >= since]
    return [call["status"] for call in calls if call["groupLabels"].get("job_id") == job.job_id]


def test_stall_pages_once_if_hub_agent_and_prometheus_are_killed(stack: RunningStack, training: Job) -> None:
    stack.await_silence(training)
    with stack.stopped(training, 2) as struck:
        wait_for("a page", lambda: pages(stack, training, struck), 15)
        for word, url in (
            ("zmon hub", f"{stack.urls['hub']}/healthz"),
            ("zmon agent", f"{stack.urls['agent']}/healthz"),
            ("--storage.tsdb.path", f"{stack.urls['prometheus']}/-/ready"),
        ):
            process_with(stack, word).kill()
            time.sleep(0.5)  # so that the killed process does not answer any more
            wait_for(f"{word} is back", lambda url=url: is_up(url), 30)
        time.sleep(SETTLED_SECONDS)
        assert pages(stack, training, struck) == ["firing"]
    wait_for("the resolved page", lambda: len(pages(stack, training, struck)) > 1, 60)
    time.sleep(SETTLED_SECONDS)
    assert pages(stack, training, struck) == ["firing", "resolved"]
    desk_alerts = [
        alert
        for time_, call in stack.webhook.calls
        for alert in call["alerts"]
        if call["receiver"] == "desk" and time_ >= struck
    ]
    assert [alert for alert in desk_alerts if alert["labels"].get("job_id") == training.job_id] == []
