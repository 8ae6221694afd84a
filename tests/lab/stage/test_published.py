"""Tests of reading every state in which a finding was published."""

from dataclasses import replace

from lab.stage.published import published
from tests.build import finding
from zmon.hub.culprit_hold import HOLD_SECONDS
from zmon.hub.journal import Journal


def test_culprit_that_was_replaced_is_returned_beside_the_later_one(tmp_path):
    path = tmp_path / "findings.jsonl"
    journal = Journal(path)
    first = finding(id="1", job_id="drill-1", ranks=(1,), severity="warning")
    journal.open_or_update(first, 10.0)
    for now in (11.0, 11.0 + HOLD_SECONDS):  # another culprit is published once it has been reported for this long
        journal.open_or_update(replace(first, ranks=(2,), severity="critical"), now)
    states = published(path, "drill-1")
    assert (states[-1].ranks, states[-1].severity) == ((2,), "critical")
    assert (1,) in [state.ranks for state in states]


def test_findings_about_a_job_whose_id_begins_alike_are_left_out(tmp_path):
    journal = Journal(tmp_path / "findings.jsonl")
    journal.open_or_update(finding(id="1", job_id="drill-1", ranks=(1,)), 10.0)
    journal.open_or_update(finding(id="2", job_id="drill-10", ranks=(3,)), 10.0)
    assert [state.ranks for state in published(tmp_path / "findings.jsonl", "drill-1")] == [(1,)]


def test_state_that_returns_is_the_last_one(tmp_path):
    path = tmp_path / "findings.jsonl"
    journal = Journal(path)
    first = finding(id="1", job_id="drill-1", cause="compute_hang", severity="critical")
    for now, cause in ((10.0, "compute_hang"), (11.0, "network_stall"), (12.0, "compute_hang")):
        journal.open_or_update(replace(first, cause=cause), now)
    assert [state.cause for state in published(path, "drill-1")] == ["compute_hang", "network_stall", "compute_hang"]


def test_line_that_is_being_written_is_left_out(tmp_path):
    path = tmp_path / "findings.jsonl"
    Journal(path).open_or_update(finding(id="1", job_id="drill-1"), 10.0)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert len(published(path, "drill-1")) == 1


def test_missing_journal_has_no_states(tmp_path):
    assert published(tmp_path / "missing.jsonl", "drill-1") == ()
