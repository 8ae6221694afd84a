"""Tests of the lags of ranks: a rank that is slow in turn with the others is not behind."""

import pytest

from tests.detectors.slow.slow_jobs import rank, steps
from zmon.detectors.slow.self_times import SelfTimes

FOUR_OF_SEVEN = "1110001" * 3


def late(other_data):
    """Return the late ranks of two: rank 1 is slow in four of seven steps, rank 0 has this data time in the others."""
    turns = [(rank(data=0.010), rank(data=0.510)), (rank(data=other_data), rank(data=0.010))]
    rows = [step for digit in FOUR_OF_SEVEN for step in steps(1, *turns[digit == "0"])]
    return [lag.rank for lag in SelfTimes.from_steps(rows).lags(len(rows), 0.1)]


@pytest.mark.parametrize(("other_data", "ranks"), [(0.510, []), (0.010, [1])])
def test_one_of_two_ranks_is_not_late_if_the_other_is_slow_in_the_other_steps(other_data, ranks):
    """A slow loader that moves between the two is with one of them in more than half of the steps."""
    assert late(other_data) == ranks
