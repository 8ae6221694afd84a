"""Tests of the journal's file: damaged lines, lines of another version, a file without access, and its mode."""

import errno
import json
import os
from pathlib import Path

import pytest

from tests.build import NOW, evidence, finding, opened_id
from zmon.hub import journal as journal_module
from zmon.hub import json_lines
from zmon.hub.journal import Journal
from zmon.schema.evidence import StallEvidence


@pytest.mark.parametrize("cut_line", [b'{"id":"f9","job_', b"\xff\xfe\x00", b"null", b"[]", b'{"schema": 1}'])
def test_line_that_a_crash_cut_off_does_not_spoil_the_next_one(journal, journal_path, cut_line):
    journal.open_or_update(finding(), NOW)
    with journal_path.open("ab") as file:
        file.write(cut_line)
    restarted = Journal(journal_path)
    assert [f.id for f in restarted.all()] == [opened_id()]
    restarted.open_or_update(finding(id="f2", job_id="other"), NOW)
    assert {f.id for f in Journal(journal_path).all()} == {opened_id("f1"), opened_id("f2")}


def test_last_line_is_kept_unless_a_crash_cut_it_off(journal, journal_path, caplog):
    journal.open_or_update(finding(), NOW)
    line = journal_path.read_bytes()
    for cut_line, expected in ((line[:-1], line), (line[:-2], b"")):  # without the line break; without the last "}"
        journal_path.write_bytes(cut_line)
        Journal(journal_path)
        assert (journal_path.read_bytes(), caplog.text) == (expected, "")


def test_finding_with_evidence_of_unknown_shape_is_kept_without_evidence(journal, journal_path):
    journal.open_or_update(finding(evidence={"num_steps": 7}), NOW)
    journal_path.write_bytes(journal_path.read_bytes().replace(b'"num_steps":7', b'"num_steps":{"of_a_newer_zmon":7}'))
    (read,) = Journal(journal_path).all()
    assert (read.id, read.evidence) == (opened_id(), StallEvidence())
    assert b"of_a_newer_zmon" in journal_path.read_bytes()


@pytest.mark.parametrize("change", [b'"schema":{"of":2}', b'"ranks":"all"', b'"key_of_a_newer_zmon":1'])
def test_rewrite_keeps_the_line_of_a_newer_version(journal, journal_path, change):
    """After a downgrade, the hub keeps the lines that it cannot read: the next newer hub reads them."""
    journal.open_or_update(finding(), NOW)
    line = journal_path.read_bytes().replace(f'"id":"{opened_id()}"'.encode(), b'"id":"newer",' + change)
    assert change in line
    journal_path.write_bytes(line)
    for second in range(2):
        restarted = Journal(journal_path)
        restarted.open_or_update(finding(id="f2", job_id="other"), NOW + second)
        Journal(journal_path)
    assert line in journal_path.read_bytes()


def test_later_line_that_cannot_be_read_replaces_the_earlier_one(journal, journal_path):
    """A finding that a newer version resolved is not open again."""
    journal.open_or_update(finding(), NOW)
    line = json.dumps({"id": opened_id(), "resolved": {"of_a_newer_zmon": NOW}}).encode()
    with journal_path.open("ab") as file:
        file.write(line + b"\n")
    assert Journal(journal_path).all() == []
    assert journal_path.read_bytes() == line + b"\n"


def test_number_of_unreadable_lines_is_bounded(journal_path, monkeypatch, caplog):
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 3)
    journal_path.parent.mkdir()
    journal_path.write_text("".join(f"{number}\n" for number in range(9)))
    Journal(journal_path)
    assert journal_path.read_text() == "6\n7\n8\n"
    assert "3 lines" in caplog.text


def test_file_that_cannot_be_read_is_never_replaced(journal, journal_path, monkeypatch):
    journal.open_or_update(finding(), NOW)
    journal.open_or_update(finding(id="b", job_id="other"), NOW)
    before = journal_path.read_bytes().replace(b'"id":"f1-', b'"key_of_a_newer_zmon":1,"id":"f1-')
    journal_path.write_bytes(before)

    def fails(path):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fails)
        restarted = Journal(journal_path)
        restarted.open_or_update(finding(), NOW + 1000)
        restarted.retry(NOW + 1000)
        assert "what it has cannot be read (Input/output error) and is not replaced" in restarted.error
    assert journal_path.read_bytes() == before
    restarted.retry(NOW + 2000)
    assert restarted.error is None
    for journal_ in (restarted, Journal(journal_path)):
        assert {f.id for f in journal_.active()} == {opened_id(time=NOW + 1000), opened_id("b")}
        assert journal_.find(opened_id()).resolved == NOW


def test_finding_that_cannot_be_written_is_published(tmp_path, caplog):
    (tmp_path / "findings.jsonl").mkdir()
    journal = Journal(tmp_path / "findings.jsonl")
    assert journal.open_or_update(finding(), NOW)
    assert [f.id for f in journal.active()] == [opened_id()]
    assert "directory" in journal.error
    assert len(caplog.records) == 1
    (tmp_path / "findings.jsonl").rmdir()
    journal.attach(opened_id(), evidence(num_steps=1))
    assert journal.error is None
    assert [f.id for f in Journal(tmp_path / "findings.jsonl").active()] == [opened_id()]


def test_file_that_cannot_be_rewritten_is_unchanged(journal_path, monkeypatch):
    monkeypatch.setattr(json_lines, "REWRITE_BYTES", 2_000)
    journal = Journal(journal_path)
    journal.open_or_update(finding(), NOW)
    (journal_path.parent / f".{journal_path.name}.partial").mkdir()
    journal.attach(opened_id(), evidence(exit_status="x" * 2_000))
    assert journal.error is not None
    journal.attach(opened_id(), evidence(exit_status="y"))
    assert journal.error is None
    (journal_path.parent / f".{journal_path.name}.partial").rmdir()
    assert Journal(journal_path).all() == journal.all()


def mode(path):
    """Return the permissions of a file or folder in octal."""
    return f"{path.stat().st_mode & 0o777:o}"


@pytest.fixture
def open_umask():
    """Let the test create files that anybody can read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_only_the_owner_can_read_findings(journal_path):
    Journal(journal_path).open_or_update(finding(), NOW)
    assert (mode(journal_path.parent), mode(journal_path)) == ("700", "600")
    journal_path.chmod(0o644)  # as an earlier version did
    Journal(journal_path)
    assert mode(journal_path) == "600"


@pytest.mark.usefixtures("open_umask")
def test_owner_may_let_others_read_the_folder(journal_path):
    journal_path.parent.mkdir(mode=0o755)
    Journal(journal_path)
    assert (mode(journal_path.parent), mode(journal_path)) == ("755", "600")
