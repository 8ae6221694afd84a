"""A restarted job: the lost time, the length of the restart, and the case of another job with the same id."""

from dataclasses import replace

import pytest

from tests.job.simulated_job import STEP, SimulatedJob, rounded
from zmon.job.time_account import OTHER_JOB_SECONDS


@pytest.fixture
def job():
    return SimulatedJob()


def test_restart_is_from_the_last_sign_to_the_first(job):
    job.wait(2)
    job.train(100)
    job.update()
    job.wait(0.5)  # the step never ends
    job.die()
    job.update()
    job.wait(7)
    job.update()
    job.begin(after=40)
    job.wait(3)
    job.update()
    job.train(50)
    job.update()
    assert rounded(job.account) == {"init": 5, "forward": 1.5, "all_to_all": 1.5, "restart": 40.5}
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_goodput_is_without_what_was_done_after_the_last_checkpoint(job):
    job.train(100)
    job.turn("checkpoint")
    job.wait(1)
    job.train(30)
    job.update()
    job.train(20)
    job.update()
    job.die()
    job.update()
    job.begin(after=4)
    job.train(50)
    job.update()
    kept_seconds = (100 + 50) * STEP
    assert job.account.lost == pytest.approx(50 * STEP)
    assert job.account.goodput_ratio == pytest.approx(kept_seconds / job.total_seconds)


def test_checkpoint_of_an_earlier_launch_is_what_a_later_one_goes_back_to(job):
    job.train(100)
    job.turn("checkpoint")
    job.train(1)
    job.update()
    for _ in range(2):
        job.die()
        job.update()
        job.begin(after=4)
        job.train(50)
        job.update()
    assert job.account.goodput_ratio is not None
    assert job.account.lost == pytest.approx(51 * STEP)


def test_goodput_is_at_most_one_while_records_do_not_come(job):
    job.train(1000)
    for _ in range(3):
        job.update(with_records=False)
        assert job.account.goodput_ratio == pytest.approx(1.0)


def test_death_in_a_stall_with_a_late_finding_counts_the_wait_once(job):
    job.train(100)
    job.update()
    job.wait(600)
    job.die()
    job.update()
    job.wait(1)
    job.update(stalled=True)
    assert job.account.seconds == pytest.approx(602)


def test_end_of_a_dead_launch_does_not_move_back(job):
    job.train(100)
    job.update()
    job.wait(600)
    job.die()
    job.update()
    job.gone += 500  # a restarted agent counts from the last sign of life
    job.update()
    job.gone -= 500
    job.begin(after=10)
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_goodput_of_one_launch_is_the_time_in_steps(job):
    job.wait(1)
    job.train(50)
    job.update()
    assert job.account.goodput_ratio == pytest.approx(0.5)


def test_goodput_is_unknown_where_a_restart_lost_an_unknown_time(job):
    job.train(100)
    job.update()
    job.die()
    job.update()
    job.begin(after=4)
    job.train(50)
    job.update()
    assert job.account.goodput_ratio is None
    assert "saw no checkpoint before a restart" in job.account.doubt


def test_goodput_is_unknown_where_the_clock_was_set_back_between_two_launchs(job):
    job.train(100)
    job.turn("checkpoint")
    job.train(1)
    job.update()
    job.die()
    job.update()
    job.begin(after=4)
    job.time -= 3600
    job.wait(1)
    job.update()
    assert job.account.goodput_ratio is None
    assert "clock was set back" in job.account.doubt
    assert "restart" not in job.account.causes


def test_job_that_is_over_grows_no_older(job):
    job.train(50)
    job.turn("done")
    job.update()
    before = job.account.seconds
    job.wait(100)
    job.update()
    assert job.account.seconds == before


def test_job_that_is_run_again_under_its_id_after_it_was_done_is_another(job):
    job.train(50)
    job.turn("done")
    job.update()
    job.begin(after=10)
    job.wait(2)
    job.update()
    assert rounded(job.account) == {"init": 2}


def test_job_that_comes_back_after_days_is_another(job):
    job.train(50)
    job.update()
    job.die()
    job.update()
    job.begin(after=OTHER_JOB_SECONDS + 10)
    job.update()
    assert job.account.causes == {}


def test_restart_that_took_hours_is_the_same_job(job):
    job.train(50)
    job.update()
    job.die()
    job.update()
    job.begin(after=3 * 3600)
    job.update()
    assert rounded(job.account)["restart"] == 3 * 3600


def test_another_launch_counts_once_all_its_ranks_are_there(job):
    """Otherwise an unwatched rank would begin another launch."""
    job.train(50)
    job.update()
    state = job.state()
    job.account.update(replace(state, ranks=state.ranks[1:], missing=(0,)), (), STEP, False)
    assert job.account.start.run_uid == "0-0"
