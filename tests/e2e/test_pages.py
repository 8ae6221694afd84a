"""One fault is one page, while every part of the monitor dies under it and comes back."""

from __future__ import annotations

import os
import signal
import time

from tests.e2e.conftest import Job, Running, wait_for
from tests.e2e.test_parts import answers, part

SETTLED_SECONDS = 16.0  # scrape, evaluation, what keeps an alert firing, its group's next notification: 15 at most


def pages(stack: Running, job: Job) -> list[str]:
    """The status of each notification about the job that the pager got."""
    calls = [call for _, call in stack.webhook.calls if call["receiver"] == "pager"]
    return [call["status"] for call in calls if call["groupLabels"].get("job_id") == job.job_id]


def test_a_stall_is_one_page_when_hub_agent_and_prometheus_die_under_it(stack: Running, training: Job) -> None:
    pid = stack.ranks(training.job_id)[2]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for("a page", lambda: pages(stack, training), 15)
        for word, door in (
            ("zmon hub", f"{stack.urls['hub']}/healthz"),
            ("zmon agent", f"{stack.urls['agent']}/healthz"),
            ("--storage.tsdb.path", f"{stack.urls['prometheus']}/-/ready"),
        ):
            part(stack, word).kill()
            time.sleep(0.5)
            wait_for(f"{word} is back", lambda door=door: answers(door), 30)
        time.sleep(SETTLED_SECONDS)
        assert pages(stack, training) == ["firing"]
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for("the end of it", lambda: len(pages(stack, training)) > 1, 60)
    time.sleep(SETTLED_SECONDS)
    assert pages(stack, training) == ["firing", "resolved"]
    told = [alert for _, call in stack.webhook.calls for alert in call["alerts"] if call["receiver"] == "desk"]
    assert [alert for alert in told if alert["labels"].get("job_id") == training.job_id] == []
