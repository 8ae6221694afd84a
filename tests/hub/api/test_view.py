"""Tests of the state of a job in one word."""

import pytest

from tests.build import killed, rank_state, snapshot
from zmon.hub.api.view import job_state


@pytest.mark.parametrize(
    ("activities", "expected"),
    [
        (["train"] * 4, "train"),
        (["init", "init", "init", "train"], "init"),
        (["eval"] * 4, "eval"),
        (["done"] * 4, "done"),
        (["done", "done", "done", "train"], "train"),
    ],
)
def test_state_of_a_job_is_the_activity_of_most_ranks(activities, expected):
    ranks = [rank_state(rank, activity=activity) for rank, activity in enumerate(activities)]
    assert job_state(snapshot(*ranks), []) == expected


def test_job_has_exited_after_all_its_ranks_ended():
    assert job_state(snapshot(*map(killed, range(4))), []) == "exited"
