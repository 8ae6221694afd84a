"""Tests of a hub that is killed at any instant of any write: the next hub reads everything that was written before."""

import json
import subprocess
import sys
import tempfile

import pytest


@pytest.fixture(scope="module")
def crashes():
    """The number of points at which a hub was killed, by call, and the problems of the hubs that came next."""
    with tempfile.TemporaryDirectory(prefix="zmon-crash-", dir="/dev/shm") as folder:
        command = [sys.executable, "-m", "tests.hostile.crash_points", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_next_hub_reads_everything_after_a_kill_at_any_write(crashes):
    assert crashes["problems"] == []


def test_hub_was_killed_at_each_kind_of_call_that_it_makes(crashes):
    assert crashes["points"].keys() == {"write", "replace", "rename", "fsync", "unlink", "mkdir", "rmdir"}
    assert sum(crashes["points"].values()) > 70
