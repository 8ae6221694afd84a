"""Tests of a hub that is killed at any instant of any write: the next hub reads everything that was written before."""

import json
import subprocess
import sys
import tempfile

import pytest


@pytest.fixture(scope="module")
def crashes():
    """The answers of the next hubs after a kill at each call that changes a file."""
    with tempfile.TemporaryDirectory(prefix="zmon-crash-", dir="/dev/shm") as folder:
        command = [sys.executable, "-m", "tests.hostile.crash_points", folder]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=170).stdout)


def test_next_hub_reads_everything_after_a_kill_at_any_write(crashes):
    assert crashes["problems"] == []


def test_every_kind_of_write_was_a_crash_point(crashes):
    assert crashes["points"] > 70
