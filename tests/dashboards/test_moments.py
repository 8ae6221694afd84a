"""What does a link to a moment show: what stood then, and of what stands now that it does."""

import time

import pytest

from tests.dashboards.world import STALL, changed, parts, text


def test_a_link_to_a_moment_tells_what_stood_then(opened, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    page = text(opened("job", job_id="ads", at="1010"))
    assert "HEALTHY" in page
    assert "At 00:16:50 UTC: rank_frozen rank 1 on node-1" in page


def test_a_link_to_now_tells_nothing_of_the_past(opened, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    assert "zmon-then" not in text(opened("job", job_id="ads"))


@pytest.mark.parametrize("view", ["cluster", "armed"])
def test_what_is_of_all_jobs_is_of_now_whatever_minute_the_link_is_of(opened, world, view):
    page = text(opened(view, job_id="ads", at=str(int(time.time()) - 86_400)))
    assert "at=" not in page
    moments = [float(dict(asked)["time"]) for path, *asked in world.questions if "time" in dict(asked)]
    assert all(time.time() - moment < 60 for moment in moments)


def test_leads_to_what_stands_now_do_not_lead_to_the_minute_of_an_older_link(opened, world):
    now = time.time()
    world.findings = [changed(STALL, onset=now - 42.3)]
    asked = {int(now) - 1200: False, int(now - 42.3): True}
    for at, is_of_it in asked.items():
        (next_step,) = [part for part in parts(opened("job", job_id="ads", at=str(at))) if "Do this next" in part]
        assert (f"at={at}" in next_step) is is_of_it
