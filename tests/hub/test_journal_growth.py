"""Tests of the journal's size: old resolved findings, large evidence and outdated lines are dropped."""

from dataclasses import replace

import msgspec

from tests.build import NOW, evidence, finding, opened_id, rank_state
from tests.hub.journals import open_and_resolve, resolve
from zmon.detectors.new_finding import rank_row
from zmon.hub import journal as journal_module
from zmon.hub import json_lines
from zmon.hub.journal import Journal

BULK = evidence(ranks=[msgspec.to_builtins(rank_row(rank_state()))], in_flight={"0": {}}, stacks={"0": {}}, pids=[7])
OLD = opened_id("old", NOW - 1000)


def test_only_the_last_resolved_findings_are_remembered(journal, journal_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    assert [f.id for f in journal.all()] == [*(opened_id(f"f{number}", NOW + 10 * number) for number in (8, 7, 6)), OLD]
    assert [f.id for f in journal.active()] == [OLD]
    assert Journal(journal_path).all() == journal.all()


def test_finding_that_resolves_after_newer_ones_is_remembered(journal, monkeypatch):
    """A client that follows the finding must learn that it has resolved."""
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    resolve(journal, NOW + 1000, "goes-on")
    assert journal.find(OLD).resolved == NOW + 1002


def test_old_resolved_findings_lose_their_large_evidence(journal, journal_path, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_RESOLVED_IN_FULL", 2)
    open_and_resolve(journal, 4, evidence=BULK)
    light = evidence(pids=[7], dropped=["ranks", "in_flight", "stacks"])
    assert [f.evidence for f in journal.all()] == [BULK, BULK, light, light]
    assert Journal(journal_path).all() == journal.all()


def write_capsule(journal, written=None):
    """Record that the finding, as `written` or as it is now, is in its capsule."""
    journal.record_capsule(replace(written or journal.find(opened_id()), capsule="/incidents/f1"))


def test_capsule_of_an_active_finding_drops_no_evidence(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    write_capsule(journal)
    current = journal.find(opened_id())
    assert (current.evidence, current.capsule) == (BULK, "/incidents/f1")


def test_capsule_of_the_active_finding_drops_no_evidence_of_the_resolved_one(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    active = journal.find(opened_id())
    resolve(journal, NOW + 5)
    write_capsule(journal, active)
    assert journal.find(opened_id()).evidence == BULK


def test_evidence_that_came_after_the_capsule_is_not_dropped(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    resolve(journal, NOW + 5)
    resolved = journal.find(opened_id())
    journal.attach(opened_id(), evidence(stderr_tail={}))
    write_capsule(journal, resolved)
    assert set(journal.find(opened_id()).evidence.names) == {*BULK.names, "stderr_tail"}


def test_large_evidence_is_dropped_once_the_final_capsule_is_written(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    resolve(journal, NOW + 5)
    write_capsule(journal)
    assert journal.find(opened_id()).evidence == evidence(pids=[7], dropped=["ranks", "in_flight", "stacks"])
    journal.attach(opened_id(), evidence(stacks={"0": {"stack": "late"}}))
    assert "stacks" not in journal.find(opened_id()).evidence.names


def test_large_file_is_rewritten(journal, journal_path, monkeypatch):
    monkeypatch.setattr(json_lines, "REWRITE_BYTES", 20_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    largest = 0
    for number in range(300):
        journal.attach(opened_id(), evidence(exit_status=f"{number:1000}"))
        largest = max(largest, journal_path.stat().st_size)
    assert largest < 25_000  # the limit, and some lines of 1 kB: it is checked after a line is written
    assert Journal(journal_path).all() == journal.all()


def test_finding_resolves_although_all_that_are_remembered_are_newer(journal, journal_path, monkeypatch):
    """The clock was set back."""
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 2)
    open_and_resolve(journal, 3)
    open_and_resolve(journal, 1, NOW - 1000)
    assert (journal.active(), Journal(journal_path).active(), journal.error) == ([], [], None)


def test_restart_drops_the_lines_that_were_superseded(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    for number in range(5):
        journal.attach(opened_id(), evidence(num_steps=number))
    resolve(journal, NOW + 5)
    assert len(journal_path.read_text().splitlines()) == 1 + 5 + 1
    restarted = Journal(journal_path)
    assert len(journal_path.read_text().splitlines()) == 1
    assert restarted.all() == journal.all()
