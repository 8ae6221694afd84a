"""Tests of the journal's size and mode: the resolved findings are bounded, and only the owner can read the file."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from tests.build import NOW, evidence, finding, rank_state
from zmon.detectors.new_finding import rank_row
from zmon.hub import journal as module
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal

BULK = evidence(ranks=[msgspec.to_builtins(rank_row(rank_state()))], in_flight={"0": {}}, stacks={"0": {}}, pids=[7])


def resolve(journal, job_id, time):
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.resolve(job_id, "stall", time + seconds)


def open_and_resolve(journal, number, **changes):
    """Open and resolve this number of findings, one every ten seconds."""
    for time in range(number):
        new = finding(id=f"f{time}", job_id=f"job-{time}", evidence=BULK, detected=NOW + 10 * time, **changes)
        journal.open_or_update(new, NOW + 10 * time)
        resolve(journal, f"job-{time}", NOW + 10 * time + 5)


def test_only_the_last_resolved_findings_are_remembered(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    assert [f.id for f in journal.all()] == ["f8", "f7", "f6", "old"]
    assert [f.id for f in journal.active()] == ["old"]
    assert Journal(journal_path).all() == journal.all()


def test_finding_that_resolves_after_newer_ones_is_remembered(journal, monkeypatch):
    """A client that follows the finding must learn that it has resolved."""
    monkeypatch.setattr(module, "MAX_RESOLVED", 3)
    journal.open_or_update(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    open_and_resolve(journal, 9)
    resolve(journal, "goes-on", NOW + 1000)
    assert journal.find("old").resolved == NOW + 1002


def test_old_resolved_findings_lose_their_bulky_evidence(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_RESOLVED_IN_FULL", 2)
    open_and_resolve(journal, 4)
    light = evidence(pids=[7], dropped=["ranks", "in_flight", "stacks"])
    assert [f.evidence for f in journal.all()] == [BULK, BULK, light, light]
    assert Journal(journal_path).all() == journal.all()


def test_bulky_evidence_is_dropped_once_the_final_capsule_is_written(journal):
    journal.open_or_update(finding(evidence=BULK), NOW)
    journal.record_capsule(replace(journal.find("f1"), capsule="/incidents/f1"))
    assert (journal.find("f1").evidence, journal.find("f1").capsule) == (BULK, "/incidents/f1")
    before = journal.find("f1")
    resolve(journal, "job", NOW + 5)
    journal.record_capsule(replace(before, capsule="/incidents/f1"))  # written before it resolved
    assert journal.find("f1").evidence == BULK
    written = journal.find("f1")
    journal.attach("f1", evidence(stderr_tail={}))
    journal.record_capsule(written)  # evidence that arrived since is not in it
    assert "stacks" in journal.find("f1").evidence.names
    journal.record_capsule(journal.find("f1"))
    assert set(journal.find("f1").evidence.names) == {"pids", "stderr_tail", "dropped"}
    journal.attach("f1", evidence(stacks={"0": {"stack": "late"}}))
    assert "stacks" not in journal.find("f1").evidence.names


def test_large_file_is_rewritten(journal, journal_path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 20_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    largest = 0
    for number in range(300):
        journal.attach("f1", evidence(exit_status=f"{number:1000}"))
        largest = max(largest, journal_path.stat().st_size)
    assert largest < 25_000
    assert Journal(journal_path).all() == journal.all()


def test_file_that_cannot_be_rewritten_is_unchanged(journal_path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 2_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    (journal_path.parent / f".{journal_path.name}.partial").mkdir()
    journal.attach("f1", evidence(exit_status="x" * 2_000))
    assert journal.error is not None
    journal.attach("f1", evidence(exit_status="y"))
    assert journal.error is None
    (journal_path.parent / f".{journal_path.name}.partial").rmdir()
    assert Journal(journal_path).all() == journal.all()


def test_recurring_fault_never_reuses_an_id(journal, monkeypatch):
    monkeypatch.setattr(module, "MAX_RESOLVED", 2)
    for again in range(4):
        assert journal.open_or_update(finding(id="a", onset=NOW + 10 * again), NOW + 10 * again, separate=True)
        resolve(journal, "job", NOW + 10 * again + 5)
    assert [(f.id, f.onset) for f in sorted(journal.all(), key=lambda f: f.onset)] == [
        ("a-3", NOW + 20), ("a-4", NOW + 30)
    ]  # fmt: skip


def test_fault_whose_findings_were_all_dropped_gets_a_new_id_from_this_hub_and_the_next(
    journal, journal_path, monkeypatch
):
    """The capsule and the links of the dropped finding have the old id."""
    monkeypatch.setattr(module, "MAX_RESOLVED", 2)
    journal.open_or_update(finding(id="a"), NOW)
    resolve(journal, "job", NOW + 1)
    open_and_resolve(journal, 3)
    assert journal.find("a") is None
    journal._rewrite()
    for hub in (Journal(journal_path), journal):
        hub.open_or_update(finding(id="a", job_id="again"), NOW + 99)
        assert [f.id for f in hub.active()] == ["a-2"]


def test_line_of_a_newer_hub_is_kept(journal, journal_path):
    """After an upgrade, a step back and the next upgrade, its finding is there again."""
    journal.open_or_update(finding(), NOW)
    newer = journal_path.read_text().replace('"cause":"rank_frozen"', '"cause":{"kind":"frozen"}').replace("f1", "new")
    journal_path.write_text(newer + journal_path.read_text())
    older = Journal(journal_path)
    assert [f.id for f in older.all()] == ["f1"]
    older._rewrite()
    assert journal_path.read_text().splitlines()[0] == newer.strip()


def test_file_that_could_not_be_read_is_not_replaced(journal, journal_path, monkeypatch):
    journal.open_or_update(finding(), NOW)
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=OSError(5, "Input/output error")))
    blind = Journal(journal_path)
    assert "Input/output error" in blind.error
    blind.open_or_update(finding(id="f2", job_id="other"), NOW)
    with pytest.raises(OSError, match="Input/output error"):
        blind._rewrite()
    monkeypatch.undo()
    assert {f.id for f in Journal(journal_path).all()} == {"f1", "f2"}
    blind.retry(NOW + 60)
    assert blind.error is None
    assert {f.id for f in blind.active()} == {"f1", "f2"}
    assert {f.id for f in Journal(journal_path).all()} == {"f1", "f2"}


def test_ids_of_another_version_are_read(journal, journal_path):
    journal.open_or_update(finding(id="a-6b49d200"), NOW)
    resolve(journal, "job", NOW + 1)
    again = Journal(journal_path)
    again.open_or_update(finding(id="a"), NOW + 99)
    assert [f.id for f in again.active()] == ["a-2"]


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
