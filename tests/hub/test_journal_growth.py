"""A hub that lives for months holds and writes no more than the last findings, and nobody else reads them."""

import os
from dataclasses import replace

import msgspec
import pytest

from tests.build import NOW, evidence, finding, rank_state
from zmon.detectors.parts.verdict import rank_row
from zmon.hub import journal as module
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal

BULK = evidence(ranks=[msgspec.to_builtins(rank_row(rank_state()))], in_flight={"0": {}}, stacks={"0": {}}, pids=[7])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "findings.jsonl"


@pytest.fixture
def journal(path):
    return Journal(path)


def resolve(journal, job_id, at):
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.settle(job_id, "stall", at + seconds)


def come_and_go(journal, number, **changes):
    """One fault after the other, ten seconds each."""
    for at in range(number):
        found = finding(id=f"f{at}", job_id=f"job-{at}", evidence=BULK, detected=NOW + 10 * at, **changes)
        journal.conclude(found, NOW + 10 * at)
        resolve(journal, f"job-{at}", NOW + 10 * at + 5)


def test_only_the_last_findings_that_are_over_are_remembered(journal, path, monkeypatch):
    monkeypatch.setattr(module, "KEPT_FINDINGS", 3)
    journal.conclude(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    come_and_go(journal, 9)
    assert [f.id for f in journal.all()] == ["f8", "f7", "f6", "old"]
    assert [f.id for f in journal.active()] == ["old"]
    assert Journal(path).all() == journal.all()


def test_finding_that_ends_after_all_newer_ones_is_remembered(journal, monkeypatch):
    """Whoever follows it has to hear that it is over."""
    monkeypatch.setattr(module, "KEPT_FINDINGS", 3)
    journal.conclude(finding(id="old", job_id="goes-on", detected=NOW - 1000), NOW - 1000)
    come_and_go(journal, 9)
    resolve(journal, "goes-on", NOW + 1000)
    assert journal.find("old").resolved == NOW + 1002


def test_of_findings_that_are_over_long_only_what_is_said_is_kept(journal, path, monkeypatch):
    monkeypatch.setattr(module, "WHOLE_FINDINGS", 2)
    come_and_go(journal, 4)
    light = evidence(pids=[7], dropped=["ranks", "in_flight", "stacks"])
    assert [f.evidence for f in journal.all()] == [BULK, BULK, light, light]
    assert Journal(path).all() == journal.all()


def test_bulk_of_a_finding_lies_in_its_capsule_alone_once_that_says_how_it_ended(journal):
    journal.conclude(finding(evidence=BULK), NOW)
    journal.file(replace(journal.find("f1"), capsule="/incidents/f1"))
    assert (journal.find("f1").evidence, journal.find("f1").capsule) == (BULK, "/incidents/f1")
    before = journal.find("f1")
    resolve(journal, "job", NOW + 5)
    journal.file(replace(before, capsule="/incidents/f1"))  # written before it was over
    assert journal.find("f1").evidence == BULK
    written = journal.find("f1")
    journal.attach("f1", evidence(stderr_tail={}))
    journal.file(written)  # what came in since is not in it
    assert "stacks" in journal.find("f1").evidence.names
    journal.file(journal.find("f1"))
    assert set(journal.find("f1").evidence.names) == {"pids", "stderr_tail", "dropped"}
    journal.attach("f1", evidence(stacks={"0": {"stack": "late"}}))
    assert "stacks" not in journal.find("f1").evidence.names


def test_file_is_written_anew_when_it_has_grown(journal, path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 20_000)
    journal = Journal(path)
    journal.conclude(finding(), NOW)
    largest = 0
    for number in range(300):
        journal.attach("f1", evidence(exit_status=f"{number:1000}"))
        largest = max(largest, path.stat().st_size)
    assert largest < 25_000
    assert Journal(path).all() == journal.all()


def test_file_that_cannot_be_written_anew_stays_as_it_is(path, monkeypatch):
    monkeypatch.setattr(module, "REWRITE_BYTES", 2_000)
    journal = Journal(path)
    journal.conclude(finding(), NOW)
    path.with_suffix(".partial").mkdir()
    journal.attach("f1", evidence(exit_status="x" * 2_000))
    assert journal.error is not None
    journal.attach("f1", evidence(exit_status="y"))
    assert journal.error is None
    path.with_suffix(".partial").rmdir()
    assert Journal(path).all() == journal.all()


def test_fault_that_comes_again_after_the_first_was_forgotten_takes_no_other_ones_name(journal, monkeypatch):
    monkeypatch.setattr(module, "KEPT_FINDINGS", 2)
    for again in range(4):
        assert journal.conclude(finding(id="a", onset=NOW + 10 * again), NOW + 10 * again, separate=True)
        resolve(journal, "job", NOW + 10 * again + 5)
    assert [(f.id, f.onset) for f in sorted(journal.all(), key=lambda f: f.onset)] == [
        ("a-3", NOW + 20), ("a-4", NOW + 30)
    ]  # fmt: skip


def test_findings_are_nobody_elses_to_read(path, monkeypatch):
    before = os.umask(0)
    try:
        Journal(path).conclude(finding(), NOW)
        assert (oct(path.parent.stat().st_mode)[-3:], oct(path.stat().st_mode)[-3:]) == ("700", "600")
        path.chmod(0o644)  # by an earlier version
        Journal(path)
        assert oct(path.stat().st_mode)[-3:] == "600"
        path.unlink()
        path.parent.chmod(0o755)  # as its owner wants it
        Journal(path)
        assert (oct(path.parent.stat().st_mode)[-3:], oct(path.stat().st_mode)[-3:]) == ("755", "600")
    finally:
        os.umask(before)
