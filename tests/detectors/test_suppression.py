"""Tests of suppression: which findings another finding hides, and which open ones a stall holds open."""

import pytest

from tests.build import finding
from zmon.detectors import ALL
from zmon.detectors.suppression import TABLE, suppress

JITTER = ("input_jitter", "compute_jitter", "work_imbalance")


def report(detector, severity="warning", cause="rank_frozen"):
    return {detector: (finding(detector=detector, severity=severity, cause=cause),)}


def reported_and_held(*verdicts):
    """Return the detectors whose findings are reported, and those whose findings are held open."""
    remaining = suppress(
        {detector.name: () for detector in ALL} | {k: v for of_one in verdicts for k, v in of_one.items()}
    )
    return {name for name, findings in remaining.findings.items() if findings}, remaining.held_open


def test_table_names_only_existing_detectors():
    names = {detector.name for detector in ALL}
    assert {name for row in TABLE for name in (row.by, *row.silenced)} <= names


def test_unrelated_findings_are_all_reported():
    assert reported_and_held(report("straggler"), report("coverage"), report("hardware")) == (
        {"straggler", "coverage", "hardware"},
        set(),
    )


@pytest.mark.parametrize("naming", ["straggler", "imbalance"])
def test_finding_with_a_culprit_suppresses_the_slowdown(naming):
    assert reported_and_held(report(naming), report("slowdown")) == ({naming}, set())


@pytest.mark.parametrize("other", ["straggler", "imbalance", "slowdown", "divergence", "coverage", "hardware"])
def test_efficiency_is_suppressed_by_a_warning_but_not_by_an_info(other):
    assert reported_and_held(report(other), report("efficiency")) == ({other}, set())
    assert reported_and_held(report(other, "info"), report("efficiency")) == ({other, "efficiency"}, set())


def test_info_does_not_suppress_the_slowdown():
    assert reported_and_held(report("straggler", "info"), report("slowdown")) == ({"straggler", "slowdown"}, set())


@pytest.mark.parametrize("other", ["straggler", "imbalance", "slowdown", "efficiency", "input_bound"])
def test_stall_suppresses_step_detectors_and_holds_their_findings_open(other):
    assert reported_and_held(report("stall", "critical"), report(other)) == ({"stall"}, {other})


@pytest.mark.parametrize("other", ["divergence", "coverage", "hardware"])
def test_stall_does_not_suppress_detectors_that_need_no_steps(other):
    assert reported_and_held(report("stall", "critical"), report(other)) == ({"stall", other}, set())


def test_findings_of_a_quiet_detector_are_not_held_open_during_a_stall():
    """The faults may be over, because the ranks are gone."""
    assert reported_and_held(report("stall", "critical")) == ({"stall"}, set())


def test_stall_does_not_hold_open_a_slowdown_that_a_straggler_explains():
    assert reported_and_held(report("stall", "critical"), report("straggler"), report("slowdown")) == (
        {"stall"},
        {"straggler"},
    )


@pytest.mark.parametrize("cause", JITTER)
def test_straggler_suppresses_the_loss_to_a_rank_that_changes(cause):
    assert reported_and_held(report("straggler"), report("imbalance", cause=cause)) == ({"straggler"}, set())
    assert reported_and_held(report("straggler", "info"), report("imbalance", cause=cause)) == (
        {"straggler", "imbalance"},
        set(),
    )


@pytest.mark.parametrize("cause", ["lookup_skew", "all_to_all_skew", "stage_imbalance"])
def test_straggler_does_not_suppress_work_that_is_split_unevenly(cause):
    assert reported_and_held(report("straggler"), report("imbalance", cause=cause)) == (
        {"straggler", "imbalance"},
        set(),
    )


def test_only_the_suppressed_findings_of_a_detector_are_left_out():
    both = tuple(finding(detector="imbalance", severity="warning", cause=cause) for cause in ("lookup_skew", JITTER[0]))
    left = suppress({**report("straggler"), "imbalance": both})
    assert [each.cause for each in left.findings["imbalance"]] == ["lookup_skew"]
    assert left.resolved == {"imbalance"}


def test_job_that_loses_time_to_uneven_ranks_may_become_slower_for_another_reason():
    for cause in JITTER:
        assert reported_and_held(report("imbalance", cause=cause), report("slowdown", cause="network"))[0] == {
            "imbalance",
            "slowdown",
        }


def test_input_jitter_explains_a_slowdown_of_the_input():
    loss = report("imbalance", cause="input_jitter")
    assert reported_and_held(loss, report("slowdown", cause="input")) == ({"imbalance"}, set())
    assert reported_and_held(report("imbalance", "info", "input_jitter"), report("slowdown", cause="input"))[0] == {
        "imbalance",
        "slowdown",
    }


@pytest.mark.parametrize("cause", [*JITTER, "stage_imbalance"])
def test_uneven_ranks_explain_a_low_efficiency(cause):
    assert reported_and_held(report("imbalance", cause=cause), report("efficiency")) == ({"imbalance"}, set())
