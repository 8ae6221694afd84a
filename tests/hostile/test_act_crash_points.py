"""Tests of an agent that is killed at any step of an act: it sends no signal twice, and none without an audit entry."""

import json
import subprocess
import sys
import tempfile

import pytest

pytestmark = pytest.mark.e2e


# `points`: the least number of steps at which the agent is killed. `signals`: those that an uninterrupted act sends.
@pytest.mark.parametrize(
    ("act", "points", "signals"),
    [
        ("kill_culprit", 5, 1),
        pytest.param("end_job", 10, 3, marks=pytest.mark.slow),  # the launcher twice, and its rank
    ],
)
def test_kill_at_any_step_does_nothing_twice_and_nothing_unaudited(act, points, signals):
    with tempfile.TemporaryDirectory(prefix="zmon-act-", dir="/dev/shm") as folder:
        command = [sys.executable, "-m", "tests.hostile.act_crash_points", folder, act]
        done = subprocess.run(command, capture_output=True, check=True, timeout=170)
    answer = json.loads(done.stdout)
    assert answer["problems"] == []
    assert answer["points"] >= points
    assert answer["signals"] == signals
