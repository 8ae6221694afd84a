"""One fault is one finding, from first sight to the end, whatever restarts meanwhile."""

import json
from dataclasses import replace

import pytest

from tests.build import NOW, evidence, finding
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "findings.jsonl"


@pytest.fixture
def journal(path):
    return Journal(path)


STACKS = {"2": {"stack": "File train.py"}}
UNKNOWN = finding(cause="unknown", severity="warning", ranks=(), hosts=(), summary="nothing moves")


def test_finding_is_new_once(journal):
    assert journal.conclude(finding(), NOW)
    assert not journal.conclude(finding(), NOW + 1)
    assert [f.id for f in journal.active()] == ["f1"]


def test_refinement_keeps_id_onset_and_labels_and_changes_the_rest(journal):
    journal.conclude(UNKNOWN, NOW)
    better = finding(
        id="f2", onset=NOW + 1, detected=NOW + 2, severity="warning", evidence={"exit_status": "exit code 1"}
    )
    assert not journal.conclude(better, NOW + 2)
    (found,) = journal.active()
    assert (found.id, found.onset, found.detected) == ("f1", UNKNOWN.onset, UNKNOWN.detected)
    assert (found.cause, found.ranks, found.summary) == ("rank_frozen", (2,), better.summary)
    assert found.evidence == evidence(pids=[1002], exit_status="exit code 1")
    (published,) = journal.published()
    assert (published.cause, published.ranks, published.hosts) == ("unknown", (), ())


def test_severity_only_rises(journal):
    journal.conclude(UNKNOWN, NOW)
    journal.conclude(finding(severity="critical"), NOW + 1)
    journal.conclude(finding(severity="info"), NOW + 2)
    assert journal.active()[0].severity == "critical"
    assert journal.published()[0].severity == "critical"
    assert journal.published()[0].cause == "unknown"


def test_jobs_and_detectors_have_a_finding_each(journal):
    for number, changes in enumerate(({}, {"detector": "coverage"}, {"job_id": "other"})):
        assert journal.conclude(finding(id=f"f{number}", **changes), NOW)
    assert len(journal.active()) == 3


def settle(journal, at):
    """Quiet for long enough, from then on."""
    journal.settle("job", "stall", at)
    journal.settle("job", "stall", at + RESOLVE_AFTER_SECONDS)


def test_finding_resolves_after_two_seconds_of_quiet_and_not_before(journal):
    journal.conclude(finding(), NOW)
    journal.settle("job", "stall", NOW + 5)
    journal.settle("job", "stall", NOW + 6.9)
    assert journal.active()
    journal.settle("job", "stall", NOW + 7)
    assert journal.active() == []
    assert journal.all()[0].resolved == NOW + 7


def test_finding_that_comes_back_within_two_seconds_does_not_resolve(journal):
    journal.conclude(finding(), NOW)
    journal.settle("job", "stall", NOW + 1)
    journal.conclude(finding(), NOW + 2)
    journal.settle("job", "stall", NOW + 3.5)
    journal.settle("job", "stall", NOW + 5)
    assert len(journal.active()) == 1


def test_quiet_that_nobody_saw_through_to_the_end_begins_anew(journal):
    journal.conclude(finding(), NOW)
    journal.settle("job", "stall", NOW)
    for seconds in range(1, 100):
        journal.settle("job", "stall", NOW + seconds, but=["f1"])  # an agent is silent: its ranks are not seen
    journal.settle("job", "stall", NOW + 100)
    assert len(journal.active()) == 1
    journal.settle("job", "stall", NOW + 102)
    assert journal.active() == []


def test_quiet_about_another_job_or_by_another_detector_resolves_nothing(journal):
    journal.conclude(finding(), NOW)
    for at in (NOW + 60, NOW + 90):
        journal.settle("other", "stall", at)
        journal.settle("job", "coverage", at)
    assert len(journal.active()) == 1


def test_trouble_after_a_resolved_one_is_a_new_finding(journal):
    journal.conclude(finding(), NOW)
    settle(journal, NOW + 5)
    assert journal.conclude(finding(id="f2"), NOW + 10)
    assert [f.id for f in journal.active()] == ["f2"]
    assert len(journal.all()) == 2


def test_findings_are_listed_newest_first(journal):
    for number in range(3):
        journal.conclude(finding(id=f"f{number}", job_id=f"job-{number}", detected=NOW + number), NOW)
    assert [f.id for f in journal.all()] == ["f2", "f1", "f0"]


def test_evidence_that_comes_later_stays_through_a_refinement(journal):
    journal.conclude(finding(), NOW)
    journal.attach("f1", evidence(stacks=STACKS))
    journal.conclude(finding(severity="critical"), NOW + 1)
    assert journal.active()[0].evidence == evidence(pids=[1002], stacks=STACKS)
    journal.attach("no such finding", evidence(stacks={}))


def test_what_was_known_once_is_not_unlearned(journal):
    """A later look that sees less does not take the culprit's name away."""
    journal.conclude(finding(), NOW)
    journal.conclude(finding(cause="unknown", ranks=(), hosts=(), severity="critical"), NOW + 1)
    (found,) = journal.active()
    assert (found.cause, found.ranks) == ("rank_frozen", (2,))


def test_why_it_is_worse_now_is_what_is_read(journal):
    """A death that the launcher was to repair; what it started again does not come up."""
    journal.conclude(finding(cause="rank_exited", severity="warning", summary="may start again"), NOW)
    journal.conclude(finding(cause="unknown", ranks=(), hosts=(), summary="it did not come back"), NOW + 1)
    (found,) = journal.active()
    assert (found.cause, found.severity, found.summary) == ("rank_exited", "critical", "it did not come back")


# -- restart -----------------------------------------------------------------------------------------------


def test_restart_loses_no_finding_and_makes_no_second_one(journal, path):
    journal.conclude(finding(), NOW)
    journal.attach("f1", evidence(stacks=STACKS))
    again = Journal(path)
    assert again.active()[0] == journal.active()[0]
    assert not again.conclude(finding(id="f2"), NOW + 60)
    assert [f.id for f in again.active()] == ["f1"]


def test_resolved_finding_stays_resolved_after_a_restart(journal, path):
    journal.conclude(finding(), NOW)
    settle(journal, NOW + 5)
    again = Journal(path)
    assert again.active() == []
    assert again.all()[0].resolved == NOW + 7


def test_finding_does_not_resolve_at_the_first_quiet_look_after_a_restart(journal, path):
    journal.conclude(finding(), NOW)
    again = Journal(path)
    again.settle("job", "stall", NOW + 100)
    assert len(again.active()) == 1
    again.settle("job", "stall", NOW + 102)
    assert again.active() == []


def test_labels_stay_as_published_through_a_restart(journal, path):
    """They are the alert's identity: were they to change, one fault would page twice."""
    journal.conclude(UNKNOWN, NOW)
    journal.conclude(finding(severity="critical"), NOW + 1)
    (published,) = Journal(path).published()
    assert (published.cause, published.ranks, published.hosts) == ("unknown", (), ())
    assert published.severity == "critical"


@pytest.mark.parametrize("debris", [b'{"id":"f9","job_', b"\xff\xfe\x00", b"null", b"[]", b'{"schema": 1}'])
def test_line_that_a_crash_cut_off_is_left_out(journal, path, debris):
    journal.conclude(finding(), NOW)
    with path.open("ab") as file:
        file.write(debris)
    assert [f.id for f in Journal(path).all()] == ["f1"]


def test_line_that_a_crash_cut_off_does_not_swallow_the_next_finding(journal, path):
    journal.conclude(finding(), NOW)
    with path.open("ab") as file:
        file.write(b'{"id":"f9","job_')
    Journal(path).conclude(finding(id="f2", job_id="other"), NOW)
    assert {f.id for f in Journal(path).all()} == {"f1", "f2"}


def test_restart_drops_the_lines_that_were_superseded(journal, path):
    journal.conclude(finding(), NOW)
    for number in range(5):
        journal.attach("f1", evidence(num_steps=number))
    settle(journal, NOW + 5)
    assert len(path.read_text().splitlines()) == 7
    again = Journal(path)
    assert len(path.read_text().splitlines()) == 1
    assert again.all() == journal.all()


def test_every_change_is_a_line_of_json(journal, path):
    journal.conclude(finding(), NOW)
    journal.conclude(replace(finding(), summary="still frozen"), NOW + 1)  # nothing that matters changed
    settle(journal, NOW + 5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["resolved"] for line in lines] == [None, NOW + 7]
    assert {line["schema"] for line in lines} == {1}


def of_hardware(**changes):
    return finding(**{"detector": "hardware", "cause": "link_down", "ranks": (), **changes})


def test_separate_faults_of_a_detector_are_findings_of_their_own(journal):
    assert journal.conclude(of_hardware(id="a"), NOW, separate=True)
    assert journal.conclude(of_hardware(id="b", cause="gpu_lost"), NOW, separate=True)
    assert not journal.conclude(of_hardware(id="a"), NOW + 1, separate=True)
    assert {(f.id, f.cause) for f in journal.published()} == {("a", "link_down"), ("b", "gpu_lost")}


def test_separate_fault_resolves_while_another_goes_on(journal):
    for id_ in ("a", "b"):
        journal.conclude(of_hardware(id=id_), NOW, separate=True)
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.settle("job", "hardware", NOW + seconds, but=["b"])
    assert [f.id for f in journal.active()] == ["b"]


def test_fault_that_comes_again_does_not_take_the_place_of_the_one_before(journal):
    for again in range(3):
        assert journal.conclude(of_hardware(id="a", onset=NOW + 100 * again), NOW, separate=True)
        for seconds in (0, RESOLVE_AFTER_SECONDS):
            journal.settle("job", "hardware", NOW + seconds)
    assert {(f.id, f.onset) for f in journal.all()} == {("a", NOW), ("a-2", NOW + 100), ("a-3", NOW + 200)}


def test_finding_that_cannot_be_written_down_is_published_all_the_same(tmp_path, caplog):
    (tmp_path / "findings.jsonl").mkdir()
    journal = Journal(tmp_path / "findings.jsonl")
    assert journal.conclude(finding(), NOW)
    assert [f.id for f in journal.active()] == ["f1"]
    assert "directory" in journal.error
    assert len(caplog.records) == 1
    (tmp_path / "findings.jsonl").rmdir()
    journal.attach("f1", evidence(num_steps=1))
    assert journal.error is None
    assert [f.id for f in Journal(tmp_path / "findings.jsonl").active()] == ["f1"]
