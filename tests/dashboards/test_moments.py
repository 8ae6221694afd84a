"""Tests of links to a moment. The page shows the findings that were open then. Pages of all jobs show the present."""

import pytest

from tests.dashboards.recorded import NOW
from tests.dashboards.world import STALL, banner_sections, changed, page_text


def test_page_at_past_moment_shows_findings_of_that_time(open_page, world):
    world.past = [changed(STALL, id="f0", onset=1000.0, detected=1001.0, resolved=1060.0)]
    page = page_text(open_page("job", job_id="ads", at="1010"))
    assert "HEALTHY" in page
    assert "At 00:16:50 UTC: rank_frozen rank 1 on node-1" in page


@pytest.mark.parametrize("view", ["cluster", "armed"])
def test_pages_of_all_jobs_ignore_moment_of_link(open_page, world, view):
    page = page_text(open_page(view, job_id="ads", at=str(int(NOW) - 86_400)))
    assert "at=" not in page
    moments = [float(dict(query)["time"]) for _, *query in world.requests if "time" in dict(query)]
    assert all(NOW - moment < 60 for moment in moments)


def test_links_of_open_finding_have_moment_only_after_its_onset(open_page, world):
    world.findings = [changed(STALL, onset=NOW - 42.3)]
    moments = {int(NOW) - 1200: False, int(NOW - 42.3): True}
    for moment, was_open in moments.items():
        (next_step,) = [
            part for part in banner_sections(open_page("job", job_id="ads", at=str(moment))) if "Do this next" in part
        ]
        assert (f"at={moment}" in next_step) is was_open
