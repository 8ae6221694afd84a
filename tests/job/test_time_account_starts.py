"""A job that is started again: what was lost, how long it took, and when it is another job."""

from dataclasses import replace

import pytest

from tests.job.life import STEP, Life, rounded
from zmon.job.time_account import OTHER_JOB_SECONDS


@pytest.fixture
def life():
    return Life()


def test_restart_is_from_the_last_sign_to_the_first(life):
    life.wait(2)
    life.train(100)
    life.look()
    life.wait(0.5)  # of a step that is never over
    life.die()
    life.look()
    life.wait(7)
    life.look()
    life.begin(after=40)
    life.wait(3)
    life.look()
    life.train(50)
    life.look()
    assert rounded(life.account) == {"init": 5, "forward": 1.5, "all_to_all": 1.5, "restart": 40.5}
    assert life.account.seconds == pytest.approx(life.waited)


def test_goodput_is_without_what_was_done_after_the_last_checkpoint(life):
    life.train(100)
    life.turn("checkpoint")
    life.wait(1)
    life.train(30)
    life.look()
    life.train(20)
    life.look()
    life.die()
    life.look()
    life.begin(after=4)
    life.train(50)
    life.look()
    kept = (100 + 50) * STEP
    assert life.account.lost == pytest.approx(50 * STEP)
    assert life.account.goodput_ratio == pytest.approx(kept / life.waited)


def test_checkpoint_of_an_earlier_start_is_what_a_later_one_goes_back_to(life):
    life.train(100)
    life.turn("checkpoint")
    life.train(1)
    life.look()
    for _ in range(2):
        life.die()
        life.look()
        life.begin(after=4)
        life.train(50)
        life.look()
    assert life.account.goodput_ratio is not None
    assert life.account.lost == pytest.approx(51 * STEP)


def test_goodput_is_at_most_one_while_records_do_not_come(life):
    life.train(1000)
    for _ in range(3):
        life.look(tell=False)
        assert life.account.goodput_ratio == pytest.approx(1.0)


def test_death_in_a_stall_that_is_found_later_counts_the_wait_once(life):
    life.train(100)
    life.look()
    life.wait(600)
    life.die()
    life.look()
    life.wait(1)
    life.look(stalled=True)
    assert life.account.seconds == pytest.approx(602)


def test_end_of_a_dead_start_does_not_move_back(life):
    life.train(100)
    life.look()
    life.wait(600)
    life.die()
    life.look()
    life.gone += 500  # an agent that was started again counts from its last sign of life
    life.look()
    life.gone -= 500
    life.begin(after=10)
    life.look()
    assert life.account.seconds == pytest.approx(life.waited)


def test_goodput_of_one_start_is_the_time_in_steps(life):
    life.wait(1)
    life.train(50)
    life.look()
    assert life.account.goodput_ratio == pytest.approx(0.5)


def test_goodput_is_unknown_where_a_restart_lost_what_nobody_knows(life):
    life.train(100)
    life.look()
    life.die()
    life.look()
    life.begin(after=4)
    life.train(50)
    life.look()
    assert life.account.goodput_ratio is None
    assert "saw no checkpoint before a restart" in life.account.doubt


def test_goodput_is_unknown_where_the_clock_was_set_back_between_two_starts(life):
    life.train(100)
    life.turn("checkpoint")
    life.train(1)
    life.look()
    life.die()
    life.look()
    life.begin(after=4)
    life.time -= 3600
    life.wait(1)
    life.look()
    assert life.account.goodput_ratio is None
    assert "clock was set back" in life.account.doubt
    assert "restart" not in life.account.causes


def test_job_that_is_over_grows_no_older(life):
    life.train(50)
    life.turn("done")
    life.look()
    before = life.account.seconds
    life.wait(100)
    life.look()
    assert life.account.seconds == before


def test_job_that_is_run_again_under_its_id_after_it_was_done_is_another(life):
    life.train(50)
    life.turn("done")
    life.look()
    life.begin(after=10)
    life.wait(2)
    life.look()
    assert rounded(life.account) == {"init": 2}


def test_job_that_comes_back_after_days_is_another(life):
    life.train(50)
    life.look()
    life.die()
    life.look()
    life.begin(after=OTHER_JOB_SECONDS + 10)
    life.look()
    assert life.account.causes == {}


def test_restart_that_took_hours_is_the_same_job(life):
    life.train(50)
    life.look()
    life.die()
    life.look()
    life.begin(after=3 * 3600)
    life.look()
    assert rounded(life.account)["restart"] == 3 * 3600


def test_another_start_counts_once_all_its_ranks_are_there(life):
    """Else a rank that is only out of sight would begin one."""
    life.train(50)
    life.look()
    seen = life.state()
    life.account.update(replace(seen, ranks=seen.ranks[1:], missing=(0,)), (), STEP, False)
    assert life.account.start.run_uid == "0-0"
