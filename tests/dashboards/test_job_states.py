"""Tests of what pages show of a job in each state: while it does not train, has ended, or is not known well."""

import re

import pytest

from tests.dashboards.recorded import NOW
from tests.dashboards.world import JOB, STALL, banner_value, changed, page_text

SPEEDS = {state: {"–"} for state in ("done", "exited", "init", "eval", "checkpoint")}


@pytest.mark.parametrize("state", [*SPEEDS, "stalled"])
def test_job_that_does_not_train_has_no_speed_rather_than_zero(open_page, world, state):
    world.jobs = [changed(JOB, state=state)]
    app = open_page("job", job_id="ads")
    for page in (page_text(app), page_text(open_page("cluster", job_id="ads"))):
        assert "83.2 ms" not in page
        assert "24,615" not in page
    speeds = {banner_value(app, label) for label in ("Step time", "Samples/s")}
    assert speeds == SPEEDS.get(state, {"none", "0"})
    assert (banner_value(app, "Ranks watched") == "–") == (state in ("done", "exited"))


@pytest.mark.parametrize("state", ["done", "exited"])
def test_row_of_a_job_that_has_ended_has_no_zero(open_page, world, state):
    world.jobs = [changed(JOB, state=state, ranks_seen=0)]
    row = page_text(open_page("cluster")).partition('data-testid="zmon-jobs"')[2].partition("</tbody>")[0]
    assert re.findall(r"<td>([^<]*)</td>", row)[3:] == ["–", "–", "–", "–"]


def test_inferred_rate_shows_what_it_is_inferred_from(open_page, world):
    world.jobs = [changed(JOB, samples_source="loader")]
    app = open_page("job", job_id="ads")
    assert banner_value(app, "Samples/s") == "24,615 (inferred)"
    assert "Samples/s: inferred from the DataLoader." in page_text(app)


@pytest.mark.parametrize("view", ["job", "cluster"])
def test_blind_hub_shows_the_time_of_its_last_known_state(open_page, world, view):
    world.hub_is_blind, world.as_of = True, 1795217276.0
    world.findings = [changed(STALL, onset=1795217266.0, as_of=1795217270.0)]
    page = page_text(open_page(view, job_id="ads"))
    assert "last known state, as of 23:27:56 UTC" in page
    assert "as of 23:27:56 UTC, open for 10 s" in page
    assert "3.2 s (as of 23:27:50 UTC)" in page
    assert page.lower().count("last known, as of 23:27:56 utc") == 1


def test_speed_is_unknown_while_hub_is_blind(open_page, world):
    world.hub_is_blind = True
    assert {banner_value(open_page("job", job_id="ads"), label) for label in ("Step time", "Samples/s")} == {"unknown"}


def test_newer_finding_does_not_hide_stall(open_page, world):
    newer = changed(STALL, id="f2", detector="divergence", cause="divergence", onset=NOW - 1)
    world.findings = [newer, changed(STALL, onset=NOW - 42)]
    world.jobs = [changed(JOB, state="stalled")]
    assert banner_value(open_page("job", job_id="ads"), "Step time") == "none for 42 s"


def test_nan_loss_is_shown_as_nan(open_page, world):
    world.jobs = [changed(JOB, report={"loss": None})]
    assert banner_value(open_page("job", job_id="ads"), "Loss") == "NaN"


def test_job_in_unknown_state_is_not_healthy(open_page, world):
    world.jobs = [changed(JOB, state="done"), changed(JOB, job_id="video", state="unknown")]
    assert "HEALTHY" not in page_text(open_page("cluster"))


def test_info_finding_marks_no_culprit(open_page, world):
    world.findings = [changed(STALL, severity="info", cause="hot")]
    assert "" not in open_page("ranks", job_id="ads").dataframe[0].value.columns
    assert "hot</i>" not in page_text(open_page("job", job_id="ads"))
