"""A link to a moment shows the findings of that time, and findings that are open now as such."""

import time

import pytest

from tests.dashboards.world import STALL, changed, parts, text


def test_a_link_to_a_moment_shows_the_findings_of_that_time(opened, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    page = text(opened("job", job_id="ads", at="1010"))
    assert "HEALTHY" in page
    assert "At 00:16:50 UTC: rank_frozen rank 1 on node-1" in page


def test_a_link_to_now_shows_nothing_of_the_past(opened, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    assert "zmon-then" not in text(opened("job", job_id="ads"))


@pytest.mark.parametrize("view", ["cluster", "armed"])
def test_pages_of_all_jobs_show_now_even_if_the_link_has_a_time(opened, world, view):
    page = text(opened(view, job_id="ads", at=str(int(time.time()) - 86_400)))
    assert "at=" not in page
    moments = [float(dict(query)["time"]) for _, *query in world.requests if "time" in dict(query)]
    assert all(time.time() - moment < 60 for moment in moments)


def test_links_of_an_open_finding_have_no_time_before_its_onset(opened, world):
    now = time.time()
    world.findings = [changed(STALL, onset=now - 42.3)]
    moments = {int(now) - 1200: False, int(now - 42.3): True}
    for moment, was_open in moments.items():
        (next_step,) = [part for part in parts(opened("job", job_id="ads", at=str(moment))) if "Do this next" in part]
        assert (f"at={moment}" in next_step) is was_open
