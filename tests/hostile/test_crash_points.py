"""Tests of a hub that is killed at any instant of any write: the next hub reads everything that was written before."""

import pytest

from tests.hostile.crashing import outcome_of


@pytest.fixture(scope="module")
def crashes():
    """The number of points at which a hub was killed, by call, and the problems of the hubs that came next."""
    return outcome_of("crash_points")


def test_next_hub_reads_everything_after_a_kill_at_any_write(crashes):
    assert crashes["problems"] == []


def test_hub_was_killed_at_each_kind_of_call_that_it_makes(crashes):
    assert crashes["points"].keys() == {"write", "replace", "rename", "fsync", "unlink", "mkdir", "rmdir"}
    assert sum(crashes["points"].values()) > 70
