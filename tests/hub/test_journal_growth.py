"""Tests of the journal's size and mode: the resolved findings are bounded, and only the owner can read the file."""

import os
from dataclasses import replace

import msgspec
import pytest

from tests.build import NOW, evidence, finding, opened_id, rank_state
from zmon.detectors.new_finding import rank_row
from zmon.hub import journal as module
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal

BULK = evidence(ranks=[msgspec.to_builtins(rank_row(rank_state()))], in_flight={"0": {}}, stacks={"0": {}}, pids=[7])
OLD = opened_id("old", NOW - 1000)


def resolve(journal, job_id, time):
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.resolve(job_id, "stall", time + seconds)


def open_and_resolve(journal, number, begin=NOW):
    """Open and resolve this number of findings, one every ten seconds."""
    for index in range(number):
        time = begin + 10 * index
        journal.open_or_update(finding(id=f"f{index}", job_id=f"job-{index}", evidence=BULK, detected=time), time)
        resolve(journal, f"job-{index}", time + 5)


def test_only_the_last_resolved_findings_are_remembered(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    assert [f.id for f in journal.all()] == [*(opened_id(f"f{number}", NOW + 10 * number) for number in (8, 7, 6)), OLD]
    assert [f.id for f in journal.active()] == [OLD]
    assert Journal(journal_path).all() == journal.all()


def test_finding_that_resolves_after_newer_ones_is_remembered(journal, monkeypatch):
    """A client that follows the finding must learn that it has resolved."""
    monkeypatch.setattr(module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    resolve(journal, "goes-on", NOW + 1000)
    assert journal.find(OLD).resolved == NOW + 1002


def test_old_resolved_findings_lose_their_bulky_evidence(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_RESOLVED_IN_FULL", 2)
    open_and_resolve(journal, 4)
    light = evidence(pids=[7], dropped=["ranks", "in_flight", "stacks"])
    assert [f.evidence for f in journal.all()] == [BULK, BULK, light, light]
    assert Journal(journal_path).all() == journal.all()


def test_bulky_evidence_is_dropped_once_the_final_capsule_is_written(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    journal.record_capsule(replace(journal.find(opened_id()), capsule="/incidents/f1"))
    assert (journal.find(opened_id()).evidence, journal.find(opened_id()).capsule) == (BULK, "/incidents/f1")
    before = journal.find(opened_id())
    resolve(journal, "job", NOW + 5)
    journal.record_capsule(replace(before, capsule="/incidents/f1"))  # written before it resolved
    assert journal.find(opened_id()).evidence == BULK
    written = journal.find(opened_id())
    journal.attach(opened_id(), evidence(stderr_tail={}))
    journal.record_capsule(written)  # evidence that arrived since is not in it
    assert "stacks" in journal.find(opened_id()).evidence.names
    journal.record_capsule(journal.find(opened_id()))
    assert set(journal.find(opened_id()).evidence.names) == {"pids", "stderr_tail", "dropped"}
    journal.attach(opened_id(), evidence(stacks={"0": {"stack": "late"}}))
    assert "stacks" not in journal.find(opened_id()).evidence.names


def test_large_file_is_rewritten(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 20_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    largest = 0
    for number in range(300):
        journal.attach(opened_id(), evidence(exit_status=f"{number:1000}"))
        largest = max(largest, journal_path.stat().st_size)
    assert largest < 25_000
    assert Journal(journal_path).all() == journal.all()


def test_file_that_cannot_be_rewritten_is_unchanged(journal_path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 2_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    (journal_path.parent / f".{journal_path.name}.partial").mkdir()
    journal.attach(opened_id(), evidence(exit_status="x" * 2_000))
    assert journal.error is not None
    journal.attach(opened_id(), evidence(exit_status="y"))
    assert journal.error is None
    (journal_path.parent / f".{journal_path.name}.partial").rmdir()
    assert Journal(journal_path).all() == journal.all()


def test_id_of_a_finding_that_was_forgotten_is_not_used_again(journal_path, monkeypatch):
    """Its incident is on disk for longer, and links lead to it."""
    monkeypatch.setattr(module, "MAX_RESOLVED", 2)
    ids = set()
    for time in (NOW, NOW - 1000, NOW + 1000):
        journal = Journal(journal_path)
        journal.open_or_update(finding(id="a"), time)
        ids |= {f.id for f in journal.active()}
        resolve(journal, "job", time + 5)
        open_and_resolve(journal, 3, time + 10)
        assert not any(f.id.startswith("a-") for f in Journal(journal_path).all())
    assert len(ids) == 3


def test_finding_resolves_although_all_that_are_remembered_are_newer(journal, journal_path, monkeypatch):
    """The clock was set back."""
    monkeypatch.setattr(module, "MAX_RESOLVED", 2)
    open_and_resolve(journal, 3)
    open_and_resolve(journal, 1, NOW - 1000)
    assert (journal.active(), Journal(journal_path).active(), journal.error) == ([], [], None)


@pytest.mark.parametrize("earlier", ["a", "a-2"])
def test_ids_of_another_version_are_read(journal, journal_path, earlier):
    journal.open_or_update(finding(id="a"), NOW)
    journal_path.write_text(journal_path.read_text().replace(opened_id("a"), earlier))
    restarted = Journal(journal_path)
    assert not restarted.open_or_update(finding(id="a"), NOW + 1, separate=True)
    assert [f.id for f in restarted.active()] == [earlier]
    resolve(restarted, "job", NOW + 5)
    assert restarted.open_or_update(finding(id="a"), NOW + 99, separate=True)
    assert [f.id for f in restarted.all()] == [earlier, opened_id("a", NOW + 99)]


def test_only_the_owner_can_read_findings(journal_path, monkeypatch):
    before = os.umask(0)
    try:
        Journal(journal_path).open_or_update(finding(), NOW)
        assert (oct(journal_path.parent.stat().st_mode)[-3:], oct(journal_path.stat().st_mode)[-3:]) == ("700", "600")
        journal_path.chmod(0o644)  # as an earlier version did
        Journal(journal_path)
        assert oct(journal_path.stat().st_mode)[-3:] == "600"
        journal_path.unlink()
        journal_path.parent.chmod(0o755)  # the owner may widen it
        Journal(journal_path)
        assert (oct(journal_path.parent.stat().st_mode)[-3:], oct(journal_path.stat().st_mode)[-3:]) == ("755", "600")
    finally:
        os.umask(before)
