"""Tests of the journal: one fault is one finding from its opening to its end, across restarts."""

import json
from dataclasses import replace

import pytest

from tests.build import NOW, evidence, finding, opened_id
from tests.hub.journals import open_and_resolve, resolve
from zmon.hub import journal as journal_module
from zmon.hub.journal import RESOLVE_AFTER_SECONDS, Journal

STACKS = {"2": {"stack": "File train.py"}}
UNKNOWN = finding(cause="unknown", severity="warning", ranks=(), hosts=(), summary="nothing moves")


def test_update_changes_all_but_id_onset_and_labels(journal):
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


def test_finding_resolves_two_seconds_after_its_last_report(journal):
    journal.open_or_update(finding(), NOW)
    journal.resolve("job", "stall", NOW + 105)
    journal.resolve("job", "stall", NOW + 106.9)
    assert journal.active()
    journal.resolve("job", "stall", NOW + 107)
    assert journal.active() == []
    assert journal.all()[0].resolved == NOW + 107


@pytest.mark.parametrize(("job_id", "detector"), [("other", "stall"), ("job", "coverage")])
def test_pass_of_another_job_or_detector_resolves_nothing(journal, job_id, detector):
    journal.open_or_update(finding(), NOW)
    for seconds in (60, 90):
        journal.resolve(job_id, detector, NOW + seconds)
    assert journal.active()
    journal.resolve("job", "stall", NOW + 105)
    assert journal.active()  # the two seconds begin here, not at 60


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


def test_attached_evidence_stays_after_an_update(journal):
    journal.open_or_update(finding(), NOW)
    journal.attach(opened_id(), evidence(stacks=STACKS))
    journal.open_or_update(finding(severity="critical"), NOW + 1)
    assert journal.active()[0].evidence == evidence(pids=[1002], stacks=STACKS)
    journal.attach("no such finding", evidence(stacks={}))


# -- restart -----------------------------------------------------------------------------------------------


def test_restarted_journal_has_each_finding_once(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    journal.attach(opened_id(), evidence(stacks=STACKS))
    restarted = Journal(journal_path)
    assert restarted.active()[0] == journal.active()[0]
    assert not restarted.open_or_update(finding(id="f2"), NOW + 60)
    assert [f.id for f in restarted.active()] == [opened_id()]


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


def test_every_change_is_a_line_of_json(journal, journal_path):
    journal.open_or_update(finding(), NOW)
    journal.open_or_update(replace(finding(), summary="still frozen"), NOW + 1)  # no change that needs a new line
    resolve(journal, NOW + 5)
    lines = [json.loads(line) for line in journal_path.read_text().splitlines()]
    assert [line["resolved"] for line in lines] == [None, NOW + 7]
    assert {line["schema"] for line in lines} == {1}


# -- faults that a detector reports separately -------------------------------------------------------------


def hardware_finding(**changes):
    """Return a finding about a link of node-a that is down."""
    return finding(**{"detector": "hardware", "cause": "link_down", "ranks": (), **changes})


def test_separate_faults_of_a_detector_are_separate_findings(journal):
    assert journal.open_or_update(hardware_finding(id="a"), NOW, separate=True)
    assert journal.open_or_update(hardware_finding(id="b", cause="gpu_lost"), NOW, separate=True)
    assert not journal.open_or_update(hardware_finding(id="a"), NOW + 1, separate=True)
    causes = {f.id: f.cause for f in journal.published()}
    assert causes == {opened_id("a"): "link_down", opened_id("b"): "gpu_lost"}


def test_separate_fault_resolves_while_another_goes_on(journal):
    for id_ in ("a", "b"):
        journal.open_or_update(hardware_finding(id=id_), NOW, separate=True)
    for seconds in (0, RESOLVE_AFTER_SECONDS):
        journal.resolve("job", "hardware", NOW + seconds, except_ids=["b"])
    assert [f.id for f in journal.active()] == [opened_id("b")]


def test_recurring_fault_is_a_new_finding(journal):
    for number in range(3):
        assert journal.open_or_update(hardware_finding(id="a", onset=NOW + 100 * number), NOW, separate=True)
        resolve(journal, NOW, detector="hardware")
    ids = [opened_id("a", NOW + seconds) for seconds in range(3)]  # the clock may stand still, or be set back
    assert {(f.id, f.onset) for f in journal.all()} == {(ids[0], NOW), (ids[1], NOW + 100), (ids[2], NOW + 200)}


# -- ids ---------------------------------------------------------------------------------------------------


def test_id_of_a_finding_that_was_forgotten_is_not_used_again(journal_path, monkeypatch):
    """Its incident is on disk for longer, and links lead to it."""
    monkeypatch.setattr(journal_module, "MAX_RESOLVED", 2)
    ids = set()
    for time in (NOW, NOW - 1000, NOW + 1000):
        journal = Journal(journal_path)
        journal.open_or_update(finding(id="a"), time)
        ids |= {f.id for f in journal.active()}
        resolve(journal, time + 5)
        open_and_resolve(journal, 3, time + 10)
        assert not any(f.id.startswith("a-") for f in Journal(journal_path).all())
    assert len(ids) == 3


@pytest.mark.parametrize("earlier", ["a", "a-2"])
def test_ids_of_another_version_are_read(journal, journal_path, earlier):
    journal.open_or_update(finding(id="a"), NOW)
    journal_path.write_text(journal_path.read_text().replace(opened_id("a"), earlier))
    restarted = Journal(journal_path)
    assert not restarted.open_or_update(finding(id="a"), NOW + 1, separate=True)
    assert [f.id for f in restarted.active()] == [earlier]
    resolve(restarted, NOW + 5)
    assert restarted.open_or_update(finding(id="a"), NOW + 99, separate=True)
    assert [f.id for f in restarted.all()] == [earlier, opened_id("a", NOW + 99)]
