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
    still_selected,
)
from zmon.job.headline import with_headline
from zmon.schema.job import Progress

OUTAGE = Outage(NOW - 42, "cannot reach http://hub:9781: Connection refused")


def row_texts(rows):
    return [" ".join(row.cells) for row in rows]


def test_unreachable_hub_is_shown_with_the_age_of_the_data():
    line = state_line("http://hub:9781", healthy(), OUTAGE, NOW + 3).plain
    assert line.startswith("BLIND since 07:59:18 UTC, for 45 s: cannot reach")
    assert line.endswith("The data below is 3.0 s old")


def test_state_line_of_hub_that_never_answered_reports_no_data():
    assert state_line("http://hub:9781", None, OUTAGE, NOW).plain.endswith("There is no data yet")


def test_ages_of_blind_hub_are_those_of_its_last_known_state():
    state = replace(stalled(), blind=True, hub_as_of=NOW - 60)
    line = state_line("http://hub:9781", state, None, NOW).plain
    assert line.startswith("BLIND: The hub reaches no agent: this is its last known state, as of 07:59:00 UTC.")
    assert "no findings" not in line
    assert state.as_of == NOW - 60
    assert replace(state, blind=False).as_of == state.time


def test_state_line_counts_jobs_and_findings():
    assert "1 job, no findings" in state_line("", healthy(), None, NOW).plain
    assert "1 job, 1 critical" in state_line("", stalled(), None, NOW).plain
    assert "0 jobs" in state_line("", HubState(NOW, False, (), ()), None, NOW).plain


def test_jobs_with_findings_come_first_and_are_marked():
    jobs = (job("a"), job("b"), job("c", findings=("f1",)))
    rows = row_texts(job_rows(HubState(NOW, False, jobs, ()), "b", {}, 80))
    assert [text.split()[0] for text in rows] == ["!c", "a", ">"]


def test_unknown_values_of_a_job_are_shown_as_unknown():
    (text,) = row_texts(job_rows(HubState(NOW, False, (job(step=None, step_seconds=None, time={}),), ()), None, {}, 80))
    assert text.count("unknown") == 2
    assert text.endswith("no step")


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


def test_selected_job_has_its_full_name_and_time_categories():
    line = job_line(healthy(), "dlrm-7", {}).plain
    assert line == "dlrm-7: forward 41%, all_to_all 32%, backward 20%, imbalance 7%"
    assert job_line(healthy(), None, {}).plain == ""


def test_selected_job_has_its_progress():
    state = replace(healthy(), jobs=(job(progress=Progress(1208, 604)),))
    assert job_line(state, "dlrm-7", {}).plain.endswith("imbalance 7%\nstep 604 of 1,208 (50 %)")


def test_missing_ranks_have_a_reason():
    state = replace(healthy(), ranks=(), ranks_note="ranks unknown: why")
    assert "ranks unknown: why" in job_line(state, "dlrm-7", {}).plain


def test_culprits_come_first_and_are_marked():
    lines = row_texts(rank_rows(stalled(), "dlrm-7"))
    assert lines[0].startswith("! 2 node-a train, stopped forward 3 min 12 s")
    assert lines[1].startswith("  0 node-a train all_to_all #1812")


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


def test_vanished_job_is_no_longer_selected():
    jobs = (job("a"), job("b", findings=("f1",)))
    assert still_selected(HubState(NOW, False, jobs, ()), "a") == "a"
    assert still_selected(HubState(NOW, False, jobs, ()), "gone") == "b"
    assert still_selected(HubState(NOW, False, (), ()), "gone") is None


def test_unknown_severity_is_counted_under_its_name():
    state = stalled()
    state = replace(state, findings=tuple(replace(finding, severity="fatal") for finding in state.findings))
    assert "1 job, 1 fatal" in state_line("", state, None, NOW).plain


def ended():
    gone = job("a-failed", state="exited", ranks_seen=0, step_seconds=None, samples_per_second=None, ended=ended_job())
    return replace(healthy(), jobs=(job("a-healthy"), with_headline(gone, ())))


def test_ended_job_is_listed_first_without_numbers_of_a_running_job():
    state = ended()
    accounts = {view.job_id: view.time for view in state.jobs}
    first, second = job_rows(state, None, accounts, 120)
    assert first.cells == (" !a-failed", "exited", "4 gone", "604", "–", "–", "ended")
    assert (first.is_highlighted, second.is_highlighted) == (True, False)


def test_job_that_is_done_is_listed_last():
    jobs = (job("a-script", state="done"), job("b-ranks"), job("c-slow", findings=("f1",)))
    assert [view.job_id for view in HubState(NOW, False, jobs, ()).listed] == ["c-slow", "b-ranks", "a-script"]


def test_ended_job_is_shown_with_its_reason_in_place_of_findings():
    panel = findings_panel(ended(), None)
    assert panel.renderables[0].plain.startswith("FAILED job a-failed: ended by rank_exited: rank 2 on node-1 exited")
    assert findings_panel(ended(), "a-healthy").plain == "no findings"
    assert "no findings, 1 ended by a fault" in state_line("http://hub", ended(), None, NOW).plain
