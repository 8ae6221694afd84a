"""Tests of the time account of a restarted job: lost time, length of the restart, and other jobs with the same id."""

from dataclasses import replace

import pytest

from tests.job.simulated_job import STEP, SimulatedJob, rounded_categories
from zmon.job.time_account import OTHER_JOB_SECONDS


@pytest.fixture
def job():
    return SimulatedJob()


def test_restart_lasts_from_the_last_step_to_the_next_launch(job):
    job.wait(2)
    job.train(100)
    job.update()
    job.wait(0.5)  # in a step that never ends
    job.die()
    job.update()
    job.wait(7)
    job.update()
    job.restart(after=40)
    job.wait(3)
    job.update()
    job.train(50)
    job.update()
    assert rounded_categories(job.account) == {"init": 5, "forward": 1.5, "all_to_all": 1.5, "restart": 40.5}
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_goodput_excludes_steps_after_the_last_checkpoint(job):
    job.train(100)
    job.change_activity("checkpoint")
    job.wait(1)
    job.train(30)
    job.update()
    job.train(20)
    job.update()
    job.die()
    job.update()
    job.restart(after=4)
    job.train(50)
    job.update()
    kept_seconds = (100 + 50) * STEP
    assert job.account.lost == pytest.approx(50 * STEP)
    assert job.account.goodput_ratio == pytest.approx(kept_seconds / job.total_seconds)


def test_lost_steps_count_from_the_checkpoint_of_an_earlier_launch(job):
    job.train(100)
    job.change_activity("checkpoint")
    job.train(1)
    job.update()
    for _ in range(2):
        job.die()
        job.update()
        job.restart(after=4)
        job.train(50)
        job.update()
    assert job.account.goodput_ratio is not None
    assert job.account.lost == pytest.approx(51 * STEP)


def test_goodput_is_1_while_records_are_missing(job):
    job.train(1000)
    for _ in range(3):
        job.update(with_records=False)
        assert job.account.goodput_ratio == pytest.approx(1.0)


def test_death_during_a_stall_counts_the_wait_once(job):
    job.train(100)
    job.update()
    job.wait(600)
    job.die()
    job.update()
    job.wait(1)
    job.update(stalled=True)
    assert job.account.seconds == pytest.approx(602)


def test_end_of_a_dead_launch_does_not_move_backwards(job):
    job.train(100)
    job.update()
    job.wait(600)
    job.die()
    job.update()
    job.gone += 500  # a restarted agent counts from the last sign of life
    job.update()
    job.gone -= 500
    job.restart(after=10)
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_goodput_of_a_single_launch_is_its_share_of_time_in_steps(job):
    job.wait(1)
    job.train(50)
    job.update()
    assert job.account.goodput_ratio == pytest.approx(0.5)


def test_goodput_is_unknown_after_a_restart_without_a_checkpoint(job):
    job.train(100)
    job.update()
    job.die()
    job.update()
    job.restart(after=4)
    job.train(50)
    job.update()
    assert job.account.goodput_ratio is None
    assert "saw no checkpoint before a restart" in job.account.doubt


def test_goodput_is_unknown_if_the_clock_moved_back_between_launches(job):
    job.train(100)
    job.change_activity("checkpoint")
    job.train(1)
    job.update()
    job.die()
    job.update()
    job.restart(after=4)
    job.time -= 3600
    job.wait(1)
    job.update()
    assert job.account.goodput_ratio is None
    assert "clock was set back" in job.account.doubt
    assert "restart" not in job.account.causes


def test_account_of_a_finished_job_does_not_grow(job):
    job.train(50)
    job.change_activity("done")
    job.update()
    before = job.account.seconds
    job.wait(100)
    job.update()
    assert job.account.seconds == before


def test_job_started_again_after_its_end_has_a_new_account(job):
    job.train(50)
    job.change_activity("done")
    job.update()
    job.restart(after=10)
    job.wait(2)
    job.update()
    assert rounded_categories(job.account) == {"init": 2}


def test_job_started_again_after_more_than_a_day_has_a_new_account(job):
    job.train(50)
    job.update()
    job.die()
    job.update()
    job.restart(after=OTHER_JOB_SECONDS + 10)
    job.update()
    assert job.account.causes == {}


def test_restart_after_hours_continues_the_account(job):
    job.train(50)
    job.update()
    job.die()
    job.update()
    job.restart(after=3 * 3600)
    job.update()
    assert rounded_categories(job.account)["restart"] == 3 * 3600


def test_missing_rank_does_not_start_another_launch(job):
    """The rank may be missing because it is unwatched."""
    job.train(50)
    job.update()
    state = job.state()
    job.account.update(replace(state, ranks=state.ranks[1:], missing=(0,)), (), STEP, False)
    assert job.account.start.run_uid == "0-0"
