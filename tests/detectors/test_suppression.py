"""Test that each fault is reported once, and what happens to open findings of silenced detectors."""

import pytest

from tests.build import finding
from zmon.detectors import ALL
from zmon.detectors.suppression import TABLE, suppress


def says(detector, severity="warning"):
    return {detector: (finding(detector=detector, severity=severity),)}


def left(*verdicts):
    """Return the detectors that still report, and those that are held."""
    remaining = suppress(
        {detector.name: () for detector in ALL} | {k: v for of_one in verdicts for k, v in of_one.items()}
    )
    return {name for name, findings in remaining.findings.items() if findings}, remaining.held_open


def test_table_names_detectors_that_there_are():
    names = {detector.name for detector in ALL}
    assert {name for row in TABLE for name in (row.by, *row.silenced)} <= names


def test_unrelated_findings_are_all_reported():
    assert left(says("straggler"), says("coverage"), says("hardware")) == ({"straggler", "coverage", "hardware"}, set())


@pytest.mark.parametrize("naming", ["straggler", "imbalance"])
def test_slowdown_with_a_culprit_is_reported_once_and_the_other_resolves(naming):
    assert left(says(naming), says("slowdown")) == ({naming}, set())


@pytest.mark.parametrize("other", ["straggler", "imbalance", "slowdown", "divergence", "coverage", "hardware"])
def test_job_below_its_baseline_is_reported_only_without_a_better_finding(other):
    assert left(says(other), says("efficiency")) == ({other}, set())
    assert left(says(other, "info"), says("efficiency")) == ({other, "efficiency"}, set())


def test_info_silences_nothing():
    assert left(says("straggler", "info"), says("slowdown")) == ({"straggler", "slowdown"}, set())


@pytest.mark.parametrize("other", ["straggler", "imbalance", "slowdown", "efficiency", "input_bound"])
def test_stall_silences_what_speaks_of_steps_and_leaves_open_what_is(other):
    assert left(says("stall", "critical"), says(other)) == ({"stall"}, {other})


@pytest.mark.parametrize("other", ["divergence", "coverage", "hardware"])
def test_stall_silences_nothing_that_holds_without_steps(other):
    assert left(says("stall", "critical"), says(other)) == ({"stall", other}, set())


def test_detector_with_nothing_to_say_is_not_held():
    """Its open findings may be over, because its ranks are gone."""
    assert left(says("stall", "critical")) == ({"stall"}, set())


def test_slowdown_with_a_culprit_resolves_during_a_stall():
    assert left(says("stall", "critical"), says("straggler"), says("slowdown")) == ({"stall"}, {"straggler"})
