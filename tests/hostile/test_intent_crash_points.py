"""Tests of a hub that is killed at any step of an act: it asks no agent twice, and none before its line is on disk."""

import json
import subprocess
import sys
import tempfile


def test_kill_at_any_step_asks_nobody_twice_and_nobody_before_the_intent_is_written():
    with tempfile.TemporaryDirectory(prefix="zmon-intent-", dir="/dev/shm") as folder:
        command = [sys.executable, "-m", "tests.hostile.intent_crash_points", folder]
        done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    answer = json.loads(done.stdout)
    assert answer["problems"] == []
    assert answer["points"] >= 8
    assert answer["requests"] == 1
