"""Tests of the choice of ranks that stand out in a large job."""

import pytest

from tests.build import rank_state, waiting
from zmon.job.standing_out import standing_out


@pytest.mark.parametrize(("most", "first", "chosen"), [(3, (), [0, 20, 70]), (2, (55,), [20, 55]), (1, (55, 9), [9])])
def test_culprits_and_then_ranks_that_do_something_else_than_most_are_chosen(most, first, chosen):
    ranks = [waiting(rank, 1.0, world_size=100) for rank in range(100)]
    ranks[70], ranks[20] = rank_state(70, phase="data", world_size=100), rank_state(20, step=3, world_size=100)
    assert [r.rank for r in standing_out(ranks, most, first)] == chosen


def test_all_ranks_of_a_small_job_are_chosen():
    ranks = [waiting(rank, 1.0) for rank in range(4)]
    assert standing_out(ranks, 4) is ranks
