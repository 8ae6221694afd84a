"""Tests of the texts of the panels of `zmon top`: unknown values, ages, the order of jobs and ranks, and counts."""

from dataclasses import replace

import pytest

from tests.build import NOW, ended_job
from tests.cli.top.scene import healthy, job, row, stalled
from zmon.cli.top.panels import (
    RANK_COLUMNS,
    HubState,
    Outage,
    findings_panel,
    job_line,
    job_rows,
    rank_rows,
    shares,
    shortened,
    state_line,
)
from zmon.job.headline import with_headline
from zmon.schema.job import Progress

OUTAGE = Outage(NOW - 42, "cannot reach http://hub:9781: Connection refused")


def failed():
    """Return a job that a fault has ended."""
    gone = job("d-failed", state="exited", ranks_seen=0, step_seconds=None, samples_per_second=None, ended=ended_job())
    return with_headline(gone, ())


def test_state_line_of_hub_that_never_answered_reports_no_data():
    assert state_line("http://hub:9781", None, OUTAGE, NOW).plain.endswith("There is no data yet")


def test_ages_of_blind_hub_are_those_of_its_last_known_state():
    state = replace(stalled(), blind=True, hub_as_of=NOW - 60)
    line = state_line("http://hub:9781", state, None, NOW).plain
    assert line.startswith("BLIND: The hub reaches no agent: this is its last known state, as of 07:59:00 UTC.")
    assert "no findings" not in line
    assert state.as_of == NOW - 60
    assert replace(state, blind=False).as_of == state.time


@pytest.mark.parametrize(
    ("time", "before", "expected"),
    [
        pytest.param({"forward": 3.0, "data": 1.0}, {}, ["forward 75%", "data 25%"], id="from the start"),
        pytest.param({"forward": 3.0, "data": 1.0}, {"forward": 3.0}, ["data 100%"], id="since before"),
        pytest.param({"forward": 3.0}, {"forward": 3.0}, [], id="unchanged"),
        pytest.param({"forward": 1.0}, {"forward": 30.0, "data": 4.0}, ["forward 100%"], id="reset"),
        pytest.param({}, {}, [], id="empty"),
    ],
)
def test_shares_of_time_are_computed_from_growth(time, before, expected):
    assert shares(time, before) == expected


def test_selected_job_has_its_progress_and_why_its_ranks_are_unknown():
    selected = job(progress=Progress(planned_steps=1208, step=604))
    state = replace(healthy(), jobs=(selected,), ranks=(), ranks_note="ranks unknown: why")
    _, progress, ranks = job_line(state, "dlrm-7", {}).plain.splitlines()
    assert progress == "step 604 of 1,208 (50 %)"
    assert ranks == "ranks unknown: why"


def test_ranks_of_another_job_are_not_shown():
    assert rank_rows(healthy(), "other") == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"alive": False, "exit_status": "signal SIGKILL"}, "gone: signal SIGKILL"),
        ({"alive": False}, "gone: exit status unknown"),
        ({"alive": False, "activity": "done"}, "done"),
        ({"watched": False}, "unwatched"),
        ({"activity": "checkpoint"}, "checkpoint"),
        ({"process_state": "T"}, "train, stopped"),
    ],
)
def test_activity_cell_describes_state_of_rank(changes, expected):
    state = replace(healthy(), ranks=(row(0, **changes),))
    (rank_row,) = rank_rows(state, "dlrm-7")
    assert dict(zip(RANK_COLUMNS, rank_row.cells, strict=True))["activity"] == expected


def test_rank_without_a_complete_step_has_unknown_times():
    state = replace(healthy(), ranks=(row(0, self_seconds=None, exposed_seconds=None),))
    (rank_row,) = rank_rows(state, "dlrm-7")
    assert rank_row.cells[-2:] == ("unknown", "unknown")


def test_shortened_names_keep_both_ends():
    assert shortened("dlrm-7", 14) == "dlrm-7"
    assert shortened("prod-ranking-2026-11-21-retry-3", 14) == "prod-ra…etry-3"
    assert len(shortened("x" * 64, 14)) == 14


def test_jobs_are_listed_by_their_urgency():
    jobs = (job("a-done", state="done"), job("b-healthy"), job("c-slow", findings=("f1",)), failed())
    listed = HubState(time=NOW, blind=False, jobs=jobs, findings=()).listed
    assert [view.job_id for view in listed] == ["c-slow", "d-failed", "b-healthy", "a-done"]


def test_ended_job_is_marked_and_has_no_numbers_of_a_running_job():
    state = replace(healthy(), jobs=(job("a-healthy"), failed()))
    first, second = job_rows(state, None, {view.job_id: view.time for view in state.jobs}, 120)
    assert first.cells == (" !d-failed", "exited", "4 gone", "604", "–", "–", "ended")
    assert (first.is_highlighted, second.is_highlighted) == (True, False)


def test_ended_job_is_shown_with_its_reason_in_place_of_findings():
    state = replace(healthy(), jobs=(job("a-healthy"), failed()))
    panel = findings_panel(state, None)
    assert panel.renderables[0].plain.startswith("FAILED job d-failed: ended by rank_exited: rank 2 on node-1 exited")
    assert findings_panel(state, "a-healthy").plain == "no findings"
    assert "no findings, 1 ended by a fault" in state_line("http://hub", state, None, NOW).plain


def test_unknown_severity_is_counted_under_its_name():
    state = stalled()
    state = replace(state, findings=tuple(replace(finding, severity="fatal") for finding in state.findings))
    assert "1 job, 1 fatal" in state_line("", state, None, NOW).plain
