"""Tests of notices: one for each job and severity, one when all findings are over, and one for each end of a launch."""

from dataclasses import replace
from types import MappingProxyType

import msgspec
import pytest

from tests.build import JOB, NOW, evidence, finding, finished, killed, snapshot, terminated
from tests.hub.acts.builds import intent
from zmon.job.outcome import ended_launch
from zmon.notify.notices import (
    ACTS,
    CRITICAL_HOLD_SECONDS,
    DEATH_HOLD_SECONDS,
    WARNING_HOLD_SECONDS,
    Notices,
    OpenNotice,
    act_notice,
    end_notice,
)

OLD = NOW - CRITICAL_HOLD_SECONDS - 1.0
CRITICAL = finding(id="f1", severity="critical", detected=OLD, onset=NOW - 42.0)
OTHER = replace(CRITICAL, id="f9")
WARNING = finding(id="f2", severity="warning", detected=NOW - WARNING_HOLD_SECONDS - 1.0)
DEATH = replace(CRITICAL, evidence=evidence(exit_status="exit code 1"))
INFO = finding(id="f3", severity="info", detected=OLD)
DONE = ended_launch(snapshot(*(finished(rank, 9.0) for rank in range(4))), fault=None, view=None)
FAILED = ended_launch(snapshot(*(killed(rank, 9.0) for rank in range(4))), fault=CRITICAL, view=None)
CANCELLED = ended_launch(snapshot(*(terminated(rank, 9.0) for rank in range(4))), fault=None, view=None)


def make_pass(notices, *findings, labels=MappingProxyType({}), over=(), now=NOW):
    """Return the notices of a pass with these open findings.

    `labels`: those of jobs by job id. `over`: the jobs whose launch is over.
    """
    return notices.finding_notices(findings, labels, over, now)


def ids_of(*passes, over=()):
    """Return the ids of the notices in each pass; a pass has the findings that are open then."""
    notices = Notices()
    return [[notice.id for notice in make_pass(notices, *findings, over=over)] for findings in passes]


PASSES = {  # the open findings of each pass, and the ids of its notices
    "nothing": ([[]], [[]]),
    "a finding is told once": ([[CRITICAL], [CRITICAL]], [["finding f1 critical"], []]),
    "a finding that has just opened is not told yet": ([[replace(CRITICAL, detected=NOW)]], [[]]),
    "an info is never told": ([[INFO], []], [[], []]),
    "the severest one is told": ([[WARNING, CRITICAL]], [["finding f1 critical"]]),
    "a lower severity is not told later": ([[CRITICAL], [CRITICAL, WARNING]], [["finding f1 critical"], []]),
    "a higher one is told": ([[WARNING], [WARNING, CRITICAL]], [["finding f2 warning"], ["finding f1 critical"]]),
    "another one of the same severity is not": ([[CRITICAL], [OTHER, CRITICAL]], [["finding f1 critical"], []]),
    "all are over, and the next one is told again": (
        [[CRITICAL, WARNING], [WARNING], [], [], [CRITICAL]],
        [["finding f1 critical"], [], [f"over {JOB} {int(NOW)}"], [], ["finding f1 critical"]],
    ),
}


@pytest.mark.parametrize(("passes", "expected"), PASSES.values(), ids=PASSES)
def test_only_a_higher_severity_or_the_end_of_all_findings_has_a_notice(passes, expected):
    assert ids_of(*passes) == expected


def test_findings_of_a_launch_that_is_over_are_told_as_its_end():
    assert ids_of([CRITICAL], [], over={JOB}) == [[], []]
    notices = Notices()
    make_pass(notices, CRITICAL)
    assert make_pass(notices, over={JOB}) == []  # the end is about to be recorded
    notices.record_end(FAILED)
    assert make_pass(notices, over={JOB}) == make_pass(notices) == []


def test_notice_of_a_finding_has_culprit_duration_and_next_step():
    (notice,) = make_pass(Notices(), CRITICAL, labels={JOB: {"team": "ads"}})
    assert notice.title == f"CRITICAL {CRITICAL.cause}, job {JOB}"
    assert "Who: rank" in notice.body
    assert "for 42 s" in notice.body
    assert f"Next: {CRITICAL.detail}" in notice.body
    assert "zmon incident f1" in notice.body
    assert (notice.labels, notice.style) == ({"team": "ads"}, "failure")


@pytest.mark.parametrize(
    ("end", "title", "style"),
    [(DONE, "done", "success"), (FAILED, "failed", "failure"), (CANCELLED, "cancelled", "info")],
)
def test_notice_of_an_end_says_how_the_launch_ended(end, title, style):
    notice = end_notice(end)
    assert notice.title.startswith(f"{JOB} {title} after ")
    assert (notice.style, notice.outcome) == (style, end.outcome)
    assert end.summary in notice.body
    assert f"Steps {end.steps_text}, 4 ranks on node-a" in notice.body


def test_notice_of_an_end_without_a_step_says_so():
    assert "No step was done" in end_notice(msgspec.structs.replace(DONE, steps=0, first_step=None)).body


def test_warning_that_is_over_within_a_minute_is_not_told():
    notices, warning = Notices(), replace(WARNING, detected=OLD)
    assert make_pass(notices, warning) == make_pass(notices, now=NOW + 50.0) == []


@pytest.mark.parametrize("detected", [NOW - 40.0, NOW - 3600.0], ids=["a moment ago", "an hour ago"])
@pytest.mark.parametrize("moved", [-3600.0, -2.5, 2.5, 3600.0])
def test_clock_that_is_set_changes_no_hold(detected, moved):
    notices, warning = Notices(), replace(WARNING, detected=detected)
    is_due = NOW - detected >= WARNING_HOLD_SECONDS
    assert len(make_pass(notices, warning)) == is_due
    notices.move_times(moved)
    assert make_pass(notices, warning, now=NOW + moved + 1.0) == []
    assert len(make_pass(notices, warning, now=NOW + moved + WARNING_HOLD_SECONDS)) == (not is_due)


def test_finding_of_the_future_waits_no_longer_than_a_new_one():
    notices, later = Notices(), replace(CRITICAL, detected=NOW + 3600.0)  # the clock was set back while no hub ran
    assert make_pass(notices, later) == []
    assert len(make_pass(notices, later, now=NOW + CRITICAL_HOLD_SECONDS)) == 1


def test_open_notices_outlive_a_restart():
    notices = Notices({JOB: OpenNotice("critical", {"owner": "ann"})})
    assert make_pass(notices, CRITICAL, WARNING) == []
    (over,) = make_pass(notices)
    assert (over.is_over, over.severity, over.style, over.labels) == (True, "critical", "success", {"owner": "ann"})


def test_end_of_all_findings_has_the_labels_of_a_job_that_no_agent_reports_any_more():
    notices = Notices()
    make_pass(notices, CRITICAL, labels={JOB: {"owner": "ann"}})
    (over,) = make_pass(notices)
    assert over.labels == {"owner": "ann"}


def test_finding_about_a_death_is_never_told_beside_the_end():
    notices = Notices()
    assert make_pass(notices, DEATH) == []
    end = notices.record_end(FAILED)
    assert end.kind == "ends"
    later = NOW + DEATH_HOLD_SECONDS
    assert make_pass(notices, DEATH, now=later) == make_pass(notices, now=later) == []


def test_finding_about_a_death_is_told_if_the_launch_does_not_end():
    (notice,) = make_pass(Notices(), DEATH, now=NOW + DEATH_HOLD_SECONDS)
    assert notice.id == "finding f1 critical"


@pytest.mark.parametrize(
    ("changes", "title", "style"),
    [
        ({}, "job: kill culprit acted", "failure"),
        ({"result": "refused"}, "job: kill culprit refused", "failure"),
        ({"outcome": "steps_again", "outcome_seconds": 14.0}, "job: kill culprit steps again", "success"),
        ({"outcome": "did_not_help"}, "job: kill culprit did not help", "failure"),
    ],
)
def test_act_is_told_with_its_rule_its_proof_and_what_agents_answered(changes, title, style):
    notice = act_notice(intent(**{"result": "acted", **changes}, reasons=("vm: it is in state D",)), {"team": "ads"})
    assert (notice.kind, notice.title, notice.style, notice.labels) == (ACTS, title, style, {"team": "ads"})
    assert "Rule frozen, because of rank_frozen (rank 2, proof: process state)" in notice.body
    assert "vm: it is in state D" in notice.body
    assert ("14 s after the fault began" in notice.body) == ("outcome_seconds" in changes)
