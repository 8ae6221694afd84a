"""Tests of the tables over random compositions."""

import pytest

from lab.drills.tally import Outcome, by_fault, calibration, markdown, unknown_ratio

OUTCOMES = (
    Outcome("kill", "lock", "right", 0.95),
    Outcome("kill", "lock", "unknown", 0.3),
    Outcome("block", "sequence", "wrong name", 0.8),
    Outcome("pause", "none", "quiet"),
    Outcome("host_lost", "none", "skipped", skipped="it needs root"),
)


def test_results_are_counted_by_fault_without_skipped_plays():
    assert by_fault(OUTCOMES)["kill"] == {"right": 1, "unknown": 1}
    assert "host_lost" not in by_fault(OUTCOMES)


def test_ratio_of_unknown_results_is_of_plays_whose_fault_has_a_proof():
    assert unknown_ratio(OUTCOMES) == pytest.approx(1 / 3)
    assert unknown_ratio([OUTCOMES[3]]) is None


def test_calibration_compares_confidence_with_truth():
    assert calibration(OUTCOMES) == [("0.75 to 0.85", 1, 0.0), ("0.93 to 1", 1, 1.0)]


def test_table_names_what_was_skipped():
    assert "| kill | 2 | 1 |" in markdown(OUTCOMES)
    assert "1 skipped: it needs root" in markdown(OUTCOMES)
