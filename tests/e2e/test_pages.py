"""One fault is one page, while every part of the monitor dies under it and comes back."""

from __future__ import annotations

import time

import pytest

from tests.e2e.parts import answers, part
from tests.e2e.standing import Job, Running, wait_for

pytestmark = pytest.mark.slow  # `tests/stack/test_pages.py` has hub and watchers die under findings that it makes up
SETTLED_SECONDS = 10.0  # scrape, evaluation, what keeps an alert firing, its group's next notification: 8 at most


def pages(stack: Running, job: Job, since: float) -> list[str]:
    """The status of each notification about the job that the pager got."""
    calls = [call for time_, call in stack.webhook.calls if call["receiver"] == "pager" and time_ >= since]
    return [call["status"] for call in calls if call["groupLabels"].get("job_id") == job.job_id]


def test_a_stall_is_one_page_when_hub_agent_and_prometheus_die_under_it(stack: Running, training: Job) -> None:
    stack.await_silence(training)
    with stack.stopped(training, 2) as struck:
        wait_for("a page", lambda: pages(stack, training, struck), 15)
        for word, door in (
            ("zmon hub", f"{stack.urls['hub']}/healthz"),
            ("zmon agent", f"{stack.urls['agent']}/healthz"),
            ("--storage.tsdb.path", f"{stack.urls['prometheus']}/-/ready"),
        ):
            part(stack, word).kill()
            time.sleep(0.5)
            wait_for(f"{word} is back", lambda door=door: answers(door), 30)
        time.sleep(SETTLED_SECONDS)
        assert pages(stack, training, struck) == ["firing"]
    wait_for("the end of it", lambda: len(pages(stack, training, struck)) > 1, 60)
    time.sleep(SETTLED_SECONDS)
    assert pages(stack, training, struck) == ["firing", "resolved"]
    told = [
        alert
        for time_, call in stack.webhook.calls
        for alert in call["alerts"]
        if call["receiver"] == "desk" and time_ >= struck
    ]
    assert [alert for alert in told if alert["labels"].get("job_id") == training.job_id] == []
