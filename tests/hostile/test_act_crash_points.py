"""Tests of an agent that is killed at any step of an act: it sends no signal twice, and none without an audit entry."""

import pytest

from tests.hostile.crashing import outcome_of

pytestmark = pytest.mark.e2e


# `min_points`: the agent is killed at so many steps or more. `signals`: those that an uninterrupted act sends.
@pytest.mark.parametrize(
    ("act", "min_points", "signals"),
    [
        ("kill_culprit", 5, 1),
        pytest.param("end_job", 10, 3, marks=pytest.mark.slow),  # the launcher twice, and its rank
    ],
)
def test_kill_at_any_step_does_nothing_twice_and_nothing_unaudited(act, min_points, signals):
    outcome = outcome_of("act_crash_points", act)
    assert outcome["problems"] == []
    assert outcome["points"] >= min_points
    assert outcome["signals"] == signals
