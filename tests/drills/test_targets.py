"""Tests for the targets, which depend on the kind of proof and the length of the job's steps only."""

import pytest

from zmon.drills.targets import TARGETS


@pytest.mark.parametrize(
    ("proof", "median_seconds", "p99_seconds", "lease_seconds", "limit"),
    [
        ("state", 0.02, 0.04, 0.0, 4.0),
        ("state", 2.0, 4.0, 0.0, 4.0),  # a lock does not wait for a step
        ("silence", 0.02, 0.04, 0.0, 2.5),  # the floor
        ("silence", 0.25, 0.5, 0.0, 15 * 0.5 + 1),
        ("lease", 0.25, 0.5, 60.0, 62.0),
        ("steps", 0.02, 0.04, 0.0, 5.0),
        ("steps", 2.0, 4.0, 0.0, 40.0),  # of the median step, not of a long one
        ("watcher", 2.0, 4.0, 0.0, 45.0),
    ],
)
def test_target_follows_from_proof_step_times_and_lease(proof, median_seconds, p99_seconds, lease_seconds, limit):
    assert TARGETS.finding_seconds(proof, median_seconds, p99_seconds, lease_seconds) == pytest.approx(limit)
