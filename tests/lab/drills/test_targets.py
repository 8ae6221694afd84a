"""Tests of the targets. They depend on the proof, on the job's step times and, for proof `lease`, on the lease."""

import pytest

from lab.drills.targets import TARGETS
from zmon.detectors.stall import Stall


@pytest.mark.parametrize(
    ("proof", "median_seconds", "p99_seconds", "lease_seconds", "limit"),
    [
        ("state", 0.02, 0.04, 0.0, 4.0),
        ("state", 2.0, 4.0, 0.0, 4.0),  # does not depend on the steps
        ("silence", 0.02, 0.04, 0.0, 2.5),  # the floor
        ("silence", 0.25, 0.5, 0.0, 15 * 0.5 + 1),
        ("lease", 0.25, 0.5, 60.0, 62.0),
        ("steps", 0.02, 0.04, 0.0, 5.0),
        ("steps", 2.0, 4.0, 0.0, 40.0),  # from the median, not from the p99
        ("watcher", 2.0, 4.0, 0.0, 45.0),
    ],
)
def test_target_follows_from_proof_step_times_and_lease(proof, median_seconds, p99_seconds, lease_seconds, limit):
    assert TARGETS.finding_seconds(proof, median_seconds, p99_seconds, lease_seconds) == pytest.approx(limit)


@pytest.mark.parametrize(
    ("finding_seconds", "p99_seconds", "limit"),
    [
        pytest.param(2.5, 0.04, 20 + 1 + 0.04, id="short steps"),
        pytest.param(8.5, 0.5, 20 + 1 + 0.5, id="longer steps"),
        pytest.param(61.0, 4.0, 61.0, id="a long lease"),
        pytest.param(62.0, 0.5, 62.0, id="a long lease and short steps"),
    ],
)
def test_target_for_critical_is_twenty_seconds_or_that_of_the_finding(finding_seconds, p99_seconds, limit):
    """To the twenty seconds come a step, and a second in which the hub reports it."""
    assert TARGETS.critical_seconds(finding_seconds, p99_seconds) == pytest.approx(limit)


def test_target_is_the_time_of_the_detector():
    assert TARGETS.critical_floor_seconds == Stall().critical_seconds
