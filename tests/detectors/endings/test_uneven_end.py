"""Tests of ranks that left cleanly while the others went on."""

import pytest

from tests.build import disconnected, finding, finished, rank_state, snapshot
from tests.detectors.stalls import STALL, detect


def leaving(rank, seconds):
    """Return a rank that left the loop this long ago, and whose process has not ended yet."""
    return rank_state(rank, activity="done", activity_seconds=seconds, step_seconds=seconds, lease_seconds=None)


def failed(rank, gone):
    return disconnected(rank, gone, step_seconds=gone + 4.0)


def test_rank_that_left_is_named_while_its_process_still_ends():
    ranks = [failed(0, 6.0), failed(1, 6.0), failed(2, 6.0), leaving(3, 10.0)]
    result = detect(*ranks)
    assert (result.cause, result.ranks) == ("uneven_end", (3,))


def test_rank_that_left_after_the_others_failed_is_not_named():
    ranks = [failed(0, 6.0), failed(1, 6.0), failed(2, 6.0), leaving(3, 2.0)]
    assert detect(*ranks).cause == "connection_lost"


@pytest.mark.parametrize(("gone", "over"), [(0.2, False), (4.9, False), (5.1, True)])
def test_finding_stays_open_until_it_is_clear_why_ranks_ended(gone, over):
    now = snapshot(finished(0, 20.0), finished(1, 20.0), finished(2, 20.0), disconnected(3, gone))
    assert STALL.can_resolve(now, finding()) is over


def test_finding_about_a_job_that_moves_on_can_resolve_at_once():
    assert STALL.can_resolve(snapshot(*map(rank_state, range(4))), finding())
