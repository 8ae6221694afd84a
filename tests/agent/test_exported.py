"""Tests of the jobs that an agent's /metrics shows. A job id that changes with each start does not multiply series."""

import pytest

from tests.build import dead, rank_state
from zmon.agent.exported import EXPORT_AFTER_END_SECONDS, MAX_JOBS, exported_ranks


def job_ids(shown):
    """Return the ids of the jobs of a page."""
    return {state.job_id for state in shown.ranks}


def test_all_ranks_of_a_few_jobs_are_shown():
    ranks = [rank_state(rank, job_id=job_id) for job_id in ("ads", "feed") for rank in range(4)]
    assert exported_ranks(ranks) == (tuple(ranks), 0)


def test_rank_is_shown_until_shortly_after_its_end():
    old = dead(0, EXPORT_AFTER_END_SECONDS + 1, job_id="old")
    new = dead(0, EXPORT_AFTER_END_SECONDS - 1, job_id="new")
    assert exported_ranks([old, new]) == ((new,), 0)


def test_sweep_with_a_job_id_for_each_trial_shows_a_limited_number_of_jobs():
    ranks = [dead(rank, gone=1.0, job_id=f"trial-{trial}") for trial in range(200) for rank in range(8)]
    shown = exported_ranks(ranks)
    assert len(job_ids(shown)) == MAX_JOBS
    assert shown.num_left_out == 200 - MAX_JOBS
    assert len(shown.ranks) == 8 * MAX_JOBS


def test_crash_loop_with_new_ids_takes_no_place_of_a_living_job():
    ended = [dead(rank, 1.0, job_id=f"loop-{n}", start=2e9 + n) for n in range(100) for rank in range(8)]
    shown = exported_ranks([rank_state(0, job_id="ads"), *ended], max_jobs=3)
    assert job_ids(shown) == {"ads", "loop-98", "loop-99"}
    assert shown.num_left_out == 98


SIZES = {  # the ranks of a job beside the job `large`, which has two → the job that stays
    "largest": ([rank_state(0, job_id="small", start=9.0)], "large"),
    "newest of equal size": ([rank_state(rank, job_id="newer", start=9.0) for rank in range(2)], "newer"),
}


@pytest.mark.parametrize(("ranks", "job_id"), SIZES.values(), ids=SIZES)
def test_largest_and_then_newest_of_the_living_jobs_stay(ranks, job_id):
    large = [rank_state(rank, job_id="large", start=1.0) for rank in range(2)]
    assert job_ids(exported_ranks([*ranks, *large], max_jobs=1)) == {job_id}
