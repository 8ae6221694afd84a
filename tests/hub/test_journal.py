"""Tests of the journal: one fault is one finding from its opening to its end, across restarts."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import NOW, evidence, finding, opened_id
from zmon.hub import journal as module
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal
from zmon.schema.evidence import StallEvidence

STACKS = {"2": {"stack": "File train.py"}}
UNKNOWN = finding(cause="unknown", severity="warning", ranks=(), hosts=(), summary="nothing moves")


def test_finding_opens_only_once(journal):
    assert journal.open_or_update(finding(), NOW)
    assert not journal.open_or_update(finding(), NOW + 1)
    assert [f.id for f in journal.active()] == [opened_id()]


def test_update_keeps_id_onset_and_labels_and_changes_the_rest(journal):
    journal.open_or_update(UNKNOWN, NOW)
    better = finding(
        id="f2", onset=NOW + 1, detected=NOW + 2, severity="warning", evidence={"exit_status": "exit code 1"}
    )
    assert not journal.open_or_update(better, NOW + 2)
    (current,) = journal.active()
    assert (current.id, current.onset, current.detected) == (opened_id(), UNKNOWN.onset, UNKNOWN.detected)
    assert (current.cause, current.ranks, current.summary) == ("rank_frozen", (2,), better.summary)
    assert current.evidence == evidence(pids=[1002], exit_status="exit code 1")
    (published,) = journal.published()
    assert (published.cause, published.ranks, published.hosts) == ("unknown", (), ())


NOBODY = {"cause": "unknown", "ranks": (), "hosts": ()}
DIED = {"cause": "rank_exited", "severity": "warning", "summary": "may start again"}


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ((NOBODY | {"severity": "warning"}, {"severity": "critical"}, {"severity": "info"}), {"severity": "critical"}),
        (({}, NOBODY | {"severity": "critical"}), {"cause": "rank_frozen", "ranks": (2,)}),
        (
            (DIED, NOBODY | {"summary": "it did not come back"}),
            {"cause": "rank_exited", "severity": "critical", "summary": "it did not come back"},
        ),
    ],
    ids=["severity only rises", "unknown replaces no known cause", "summary of a higher severity"],
)
def test_later_reports_change_an_active_finding(journal, reports, expected):
    for seconds, changes in enumerate(reports):
        journal.open_or_update(finding(**changes), NOW + seconds)
    (current,) = journal.active()
    assert {name: getattr(current, name) for name in expected} == expected
    assert journal.published()[0].severity == current.severity
    assert journal.published()[0].cause == finding(**reports[0]).cause


def test_jobs_and_detectors_have_a_finding_each(journal):
    for number, changes in enumerate(({}, {"detector": "coverage"}, {"job_id": "other"})):
        assert journal.open_or_update(finding(id=f"f{number}", **changes), NOW)
    assert len(journal.active()) == 3


def resolve(journal, time):
    """Resolve all findings of the job: its detector is quiet for long enough from `time` on."""
    journal.resolve("job", "stall", time)
    journal.resolve("job", "stall", time + RESOLVE_AFTER_SECONDS)


def test_finding_resolves_two_seconds_after_its_last_report_and_with_no_other_job_or_detector(journal):
    journal.open_or_update(finding(), NOW)
    for seconds in (60, 90):
        journal.resolve("other", "stall", NOW + seconds)
        journal.resolve("job", "coverage", NOW + seconds)
    journal.resolve("job", "stall", NOW + 105)
    journal.resolve("job", "stall", NOW + 106.9)
    assert journal.active()
    journal.resolve("job", "stall", NOW + 107)
    assert journal.active() == []
    assert journal.all()[0].resolved == NOW + 107


def test_finding_that_comes_back_within_two_seconds_does_not_resolve(journal):
    journal.open_or_update(finding(), NOW)
    journal.resolve("job", "stall", NOW + 1)
    journal.open_or_update(finding(), NOW + 2)
    journal.resolve("job", "stall", NOW + 3.5)
    journal.resolve("job", "stall", NOW + 5)
    assert len(journal.active()) == 1


def test_time_to_resolve_restarts_after_an_undecided_pass(journal):
    journal.open_or_update(finding(), NOW)
    journal.resolve("job", "stall", NOW)
    for seconds in range(1, 100):
        journal.resolve("job", "stall", NOW + seconds, except_ids=["f1"])  # its ranks are unwatched
    journal.resolve("job", "stall", NOW + 100)
    assert len(journal.active()) == 1
    journal.resolve("job", "stall", NOW + 102)
    assert journal.active() == []


def test_fault_after_a_resolved_finding_is_a_new_finding(journal):
    journal.open_or_update(finding(), NOW)
    resolve(journal, NOW + 5)
    assert journal.open_or_update(finding(id="f2"), NOW + 10)
    assert [f.id for f in journal.active()] == [opened_id("f2", NOW + 10)]
    assert len(journal.all()) == 2


def test_findings_are_listed_newest_first(journal):
    for number in range(3):
        journal.open_or_update(finding(id=f"f{number}", job_id=f"job-{number}", detected=NOW + number), NOW)
    assert [f.id for f in journal.all()] == [opened_id(name) for name in ("f2", "f1", "f0")]


def test_attached_evidence_stays_after_an_update(journal):
    journal.open_or_update(finding(), NOW)
    journal.attach(opened_id(), evidence(stacks=STACKS))
    journal.open_or_update(finding(severity="critical"), NOW + 1)
    assert journal.active()[0].evidence == evidence(pids=[1002], stacks=STACKS)
    journal.attach("no such finding", evidence(stacks={}))


# -- restart -----------------------------------------------------------------------------------------------


def test_restart_keeps_findings_and_makes_no_duplicate(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    journal.attach(opened_id(), evidence(stacks=STACKS))
    restarted = Journal(journal_path)
    assert restarted.active()[0] == journal.active()[0]
    assert not restarted.open_or_update(finding(id="f2"), NOW + 60)
    assert [f.id for f in restarted.active()] == [opened_id()]


def test_resolved_finding_stays_resolved_after_a_restart(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    resolve(journal, NOW + 5)
    restarted = Journal(journal_path)
    assert restarted.active() == []
    assert restarted.all()[0].resolved == NOW + 7


def test_finding_does_not_resolve_in_the_first_pass_after_a_restart(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    restarted = Journal(journal_path)
    restarted.resolve("job", "stall", NOW + 100)
    assert len(restarted.active()) == 1
    restarted.resolve("job", "stall", NOW + 102)
    assert restarted.active() == []


def test_labels_stay_as_published_through_a_restart(journal, journal_path):
    """The labels identify the alert: if they changed, one fault would page twice."""
    journal.open_or_update(UNKNOWN, NOW)
    journal.open_or_update(finding(severity="critical"), NOW + 1)
    (published,) = Journal(journal_path).published()
    assert (published.cause, published.ranks, published.hosts) == ("unknown", (), ())
    assert published.severity == "critical"


@pytest.mark.parametrize("cut_line", [b'{"id":"f9","job_', b"\xff\xfe\x00", b"null", b"[]", b'{"schema": 1}'])
def test_line_that_a_crash_cut_off_is_left_out_and_the_next_one_is_stored(journal, journal_path, cut_line):
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
    for end, rest in ((-1, line), (-2, b"")):
        journal_path.write_bytes(line[:end])
        Journal(journal_path)
        assert (journal_path.read_bytes(), caplog.text) == (rest, "")


def test_finding_with_evidence_of_unknown_shape_is_kept_without_evidence(journal, journal_path):
    journal.open_or_update(finding(evidence={"num_steps": 7}), NOW)
    journal_path.write_bytes(journal_path.read_bytes().replace(b'"num_steps":7', b'"num_steps":{"of_a_newer_zmon":7}'))
    (read,) = Journal(journal_path).all()
    assert (read.id, read.evidence) == (opened_id(), StallEvidence())
    assert b"of_a_newer_zmon" in journal_path.read_bytes()


@pytest.mark.parametrize("change", [b'"schema":{"of":2}', b'"ranks":"all"', b'"key_of_a_newer_zmon":1'])
def test_rewrite_keeps_the_line_of_a_newer_version(journal, journal_path, change):
    """The hub was downgraded: its successor will read what it cannot."""
    journal.open_or_update(finding(), NOW)
    line = journal_path.read_bytes().replace(b'"id":"f1-6b49d200"', b'"id":"newer",' + change)
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
    monkeypatch.setattr(module, "MAX_RESOLVED", 3)
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
    for each in (restarted, Journal(journal_path)):
        assert {f.id for f in each.active()} == {opened_id(time=NOW + 1000), opened_id("b")}
        assert each.find(opened_id()).resolved == NOW


def test_restart_drops_the_lines_that_were_superseded(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    for number in range(5):
        journal.attach(opened_id(), evidence(num_steps=number))
    resolve(journal, NOW + 5)
    assert len(journal_path.read_text().splitlines()) == 7
    restarted = Journal(journal_path)
    assert len(journal_path.read_text().splitlines()) == 1
    assert restarted.all() == journal.all()


def test_every_change_is_a_line_of_json(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    journal.open_or_update(replace(finding(), summary="still frozen"), NOW + 1)  # no change that needs a new line
    resolve(journal, NOW + 5)
    lines = [json.loads(line) for line in journal_path.read_text().splitlines()]
    assert [line["resolved"] for line in lines] == [None, NOW + 7]
    assert {line["schema"] for line in lines} == {1}


def hardware_finding(**changes):
    return finding(**{"detector": "hardware", "cause": "link_down", "ranks": (), **changes})


def test_separate_faults_of_a_detector_are_separate_findings(journal):
    assert journal.open_or_update(hardware_finding(id="a"), NOW, separate=True)
    assert journal.open_or_update(hardware_finding(id="b", cause="gpu_lost"), NOW, separate=True)
    assert not journal.open_or_update(hardware_finding(id="a"), NOW + 1, separate=True)
    assert {(f.id, f.cause) for f in journal.published()} == {
        (opened_id("a"), "link_down"),
        (opened_id("b"), "gpu_lost"),
    }


def test_separate_fault_resolves_while_another_goes_on(journal):
    for id_ in ("a", "b"):
        journal.open_or_update(hardware_finding(id=id_), NOW, separate=True)
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.resolve("job", "hardware", NOW + seconds, except_ids=["b"])
    assert [f.id for f in journal.active()] == [opened_id("b")]


def test_recurring_fault_is_a_new_finding(journal):
    for restarted in range(3):
        assert journal.open_or_update(hardware_finding(id="a", onset=NOW + 100 * restarted), NOW, separate=True)
        for seconds in (0, RESOLVE_AFTER_SECONDS):
            journal.resolve("job", "hardware", NOW + seconds)
    ids = [opened_id("a", NOW + seconds) for seconds in range(3)]  # the clock may stand still, or be set back
    assert {(f.id, f.onset) for f in journal.all()} == {(ids[0], NOW), (ids[1], NOW + 100), (ids[2], NOW + 200)}


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
