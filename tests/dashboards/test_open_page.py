"""Tests of pages over time: what stays over refreshes of an open page, and the page at a past moment."""

import re

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.dashboards.recorded import NOW
from tests.dashboards.world import STALL, banner_sections, changed, page_text
from zmon.schema.evidence import StallEvidence


def test_selected_rank_stays_selected_when_its_row_moves(open_page, world):
    (table,) = open_page("ranks", job_id="ads", rank="0").dataframe
    st.cache_resource.clear()
    world.findings = [STALL]
    (later,) = open_page("ranks", job_id="ads", rank="0").dataframe
    assert table.proto.id != later.proto.id  # the selection of one table does not apply to the other
    assert [list(element.value["rank"]) for element in (table, later)] == [[0, 1], [1, 0]]
    assert '"rows": [0]' in table.proto.selection_default
    assert '"rows": [1]' in later.proto.selection_default


def test_next_step_is_same_element_after_update_of_finding(open_page, world):
    """A new element would end the selection of its text, which people copy."""
    world.findings = [changed(STALL, onset=NOW - 42, lost_gpu_hours=1.0)]
    first = banner_sections(open_page("job", job_id="ads"))
    st.cache_resource.clear()
    world.findings = [changed(world.findings[0], lost_gpu_hours=2.0, summary="rank 1 is stopped for 5 s")]
    later = banner_sections(open_page("job", job_id="ads"))
    assert [part == other for part, other in zip(first, later, strict=True)] == [True, False, True]
    assert "Do this next" in later[2]


def test_evidence_is_drawn_again_only_for_a_new_field(open_page, world):
    def num_starts_of(app: AppTest) -> str:
        return re.search(r"&quot;num_starts&quot;: (\d+)", page_text(app))[1]

    world.findings = [changed(STALL, onset=NOW - 42, evidence=StallEvidence(num_starts=42))]
    app = open_page("job", job_id="ads")
    assert num_starts_of(app) == "42"
    (as_of,) = [caption.value for caption in app.caption if caption.value.startswith("As of ")]
    for evidence, expected in ((StallEvidence(num_starts=44), "42"), (StallEvidence(num_starts=46, ranks=()), "46")):
        world.moment += 2
        st.cache_resource.clear()
        world.findings = [changed(world.findings[0], evidence=evidence)]
        assert num_starts_of(app.run()) == expected
        assert any(caption.value == as_of for caption in app.caption) is (expected == "42")


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
