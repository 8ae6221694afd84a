"""Tests of the time account. The time categories of a job sum to its wall-clock."""

from dataclasses import replace
from random import Random

import pytest

from tests.build import step_record
from tests.job.simulated_job import STEP, SimulatedJob, rounded_categories
from tests.steps import aligned
from zmon.job.time_account import Account

SEEDS = 40


@pytest.fixture
def job():
    return SimulatedJob()


def test_each_activity_phase_and_op_has_its_time(job):
    job.wait(3)
    job.update()
    job.train(100)
    job.update()
    job.change_activity("eval")
    job.wait(5)
    job.update()
    job.wait(2)
    job.change_activity("checkpoint")
    job.wait(1)
    job.train(50)
    job.update()
    assert rounded_categories(job.account) == {"init": 3, "forward": 1.5, "all_to_all": 1.5, "eval": 7, "checkpoint": 1}
    assert job.account.seconds == pytest.approx(job.total_seconds)
    assert job.account.gpu_seconds["eval"] == pytest.approx(4 * 7)


def test_training_time_outside_a_finished_step_is_other(job):
    """The rank fetched a batch, and then evaluated."""
    job.train(10)
    job.wait(0.3)
    job.change_activity("eval")
    job.wait(1)
    job.update()
    assert rounded_categories(job.account)["other"] == 0.3


def test_unfinished_step_is_not_counted(job):
    job.train(10)
    job.wait(0.015)
    job.update()
    assert job.account.seconds == pytest.approx(10 * STEP)


def test_stall_is_counted_once_and_not_as_communication(job):
    job.train(100)
    job.update()
    for _ in range(30):
        job.wait(1)
        job.update(stalled=True)
    assert rounded_categories(job.account)["stall"] == pytest.approx(30 - STEP)
    job.train(50)
    job.update(stalled=True)
    job.train(50)
    job.update()
    assert rounded_categories(job.account) == pytest.approx({"forward": 2.0, "all_to_all": 2.0, "stall": 30}, abs=0.05)
    assert job.account.seconds == pytest.approx(job.total_seconds)
    assert job.account.in_steps == pytest.approx(200 * STEP, abs=0.05)


def test_stall_is_not_communication_if_records_arrive_later(job):
    job.train(100)
    job.update()
    job.wait(30)
    job.update(stalled=True)
    job.train(50)
    job.update(stalled=True, with_records=False)
    job.update()
    assert rounded_categories(job.account) == pytest.approx({"forward": 1.5, "all_to_all": 1.5, "stall": 30}, abs=0.05)


def test_short_wait_during_an_open_stall_finding_is_not_a_stall(job):
    job.train(100)
    job.wait(2 * STEP)
    job.update(stalled=True)
    assert "stall" not in job.account.causes


def test_pause_of_all_ranks_in_unsampled_steps_is_not_imbalance(job):
    """Steps are short, and one of sixteen is sampled, with the mean of the sixteen."""
    job.change_activity("train")
    quick = aligned(16, [step_record(16)] * 4)
    mean = aligned(16, [step_record(16, {"forward": 0.110}, {"all_to_all": 0.010})] * 4)
    job.steps, job.in_steps = 16, 16 * 0.120
    job.new_steps = [replace(quick, stands_for=16, mean=mean)]
    job.update()
    assert job.account.causes.get("imbalance", 0.0) == 0.0
    assert sum(job.account.causes.values()) == pytest.approx(16 * 0.120)


def test_goodput_is_unknown_before_the_first_update(job):
    assert job.account.goodput_ratio is None


def test_account_is_complete_after_the_hub_was_down(job):
    job.train(100)
    job.update()
    job.change_activity("eval")
    job.wait(100)
    job.train(400)
    job.change_activity("eval")
    job.wait(50)
    job.new_steps = job.new_steps[-50:]
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds, abs=1.1)  # records of 1 s may still come
    assert rounded_categories(job.account)["eval"] == 150


def test_time_of_steps_without_records_is_unknown(job):
    """The hub starts when the job has run for hours."""
    job.train(50_000)
    job.new_steps = job.new_steps[-50:]
    job.update()
    assert rounded_categories(job.account)["forward"] == pytest.approx(0.5)
    assert rounded_categories(job.account)["unknown"] == pytest.approx(999, abs=1.2)


def test_steps_count_as_unknown_if_their_records_never_arrive(job):
    job.train(50)
    job.update(with_records=False)
    assert job.account.seconds == 0
    job.change_activity("done")
    job.wait(6)
    job.update(with_records=False)
    assert rounded_categories(job.account) == {"unknown": 1.0}


def test_time_is_counted_once_after_the_first_rank_was_unwatched(job):
    job.train(50)
    job.update()
    job.train(50)
    state = job.state()
    hidden = replace(state, ranks=state.ranks[1:], unwatched=state.ranks[:1])
    job.account.update(hidden, (), STEP, False)
    assert job.account.seconds == pytest.approx(50 * STEP)
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_update_during_a_change_of_activity_counts_nothing_twice(job):
    """The totals in the box are newer than the activity that was read."""
    job.change_activity("eval")
    job.wait(5)
    job.update()
    state = job.state()
    between = {"eval": 5.05}
    torn = replace(state, ranks=tuple(replace(r, between_seconds=between, open_seconds=0.0) for r in state.ranks))
    job.account.update(torn, (), STEP, False)
    assert rounded_categories(job.account)["eval"] == 5.05


@pytest.mark.parametrize("seed", range(SEEDS))
def test_categories_sum_to_wall_clock_after_random_events(seed):
    """The sum holds to 0.1 %, except for the step that is unfinished at the last update."""
    chance, job = Random(seed), SimulatedJob()
    for _ in range(60):
        event = chance.choice(["train"] * 4 + ["eval", "checkpoint", "stall", "die", "idle"])
        if event == "train":
            job.train(chance.randint(1, 200), phases={"forward": 0.007, "data": 0.003}, ops={"all_reduce": 0.01})
        elif event in ("eval", "checkpoint") and job.activity != "init":
            job.change_activity(event)
            job.wait(chance.uniform(0, 30))
        elif event == "stall" and job.activity == "train":
            for _ in range(chance.randint(1, 9)):
                job.wait(chance.uniform(0.2, 2))
                job.update(stalled=True)
            if chance.random() < 0.5:
                job.train(20)
                job.update(stalled=True)
        elif event == "die":
            job.update(with_records=chance.random() < 0.5)
            job.wait(chance.uniform(0, 2))
            job.die()
            job.update()
            job.wait(chance.uniform(0, 10))
            job.restart(after=job.gone + chance.uniform(0, 60))
            job.wait(chance.uniform(0, 10))
        else:
            job.wait(chance.uniform(0, 1))
        if chance.random() < 0.7:
            job.update(with_records=chance.random() < 0.8)
    job.train(100)
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds, rel=1e-3)
    assert all(seconds >= 0 for seconds in job.account.causes.values())


def test_categories_never_decrease(job):
    """Time categories are counters."""
    chance, before = Random(5), {}
    for _ in range(300):
        job.train(chance.randint(0, 3)) if chance.random() < 0.7 else job.change_activity(
            chance.choice(["eval", "checkpoint"])
        )
        job.wait(chance.uniform(0, 2))
        job.update(stalled=chance.random() < 0.3, with_records=chance.random() < 0.5)
        assert all(job.account.causes[cause] >= seconds for cause, seconds in before.items())
        before = dict(job.account.causes)


def test_histogram_bucket_includes_its_upper_bound():
    account = Account("job")
    steps = [aligned(n, [step_record(n, {"forward": s}, {})]) for n, s in enumerate((0.0005, 0.001, 0.0011, 100.0))]
    account.observe(steps, (0.001, 0.002, 65.536))
    account.observe([aligned(9, [step_record(9)], stands_for=8)], (0.001, 0.002, 65.536))
    assert account.histogram == [2, 1, 8, 1]
    assert account.histogram_seconds == pytest.approx(0.0005 + 0.001 + 0.0011 + 100 + 8 * 0.020)


def test_unknown_activity_has_a_category_of_its_own(job):
    job.wait(3)
    job.train(100)
    job.change_activity("tune")
    job.wait(5)
    job.update()
    assert rounded_categories(job.account)["tune"] == 5
    job.wait(2)
    job.train(50)
    job.update()
    assert rounded_categories(job.account) == {"init": 3, "forward": 1.5, "all_to_all": 1.5, "tune": 7}
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_operations_count_over_wall_clock_with_its_pauses(job):
    """A step of 20 ms whose operations take 5 ms at the peak: 100 of them are 0.5 s of 2 s in steps and 3 s before."""
    job.wait(3)
    job.train(60)
    job.update()
    assert job.account.flops_ratio == 0
    job.train(40)
    job.update()
    job.account.rate(0.005)
    assert job.account.flops_ratio == pytest.approx(0.5 / job.account.seconds)
    job.change_activity("eval")
    job.wait(5)
    job.update()
    job.account.rate(0.005)
    assert job.account.flops_ratio == pytest.approx(0.5 / job.account.seconds)


def test_operations_are_followed_from_now_on_in_an_account_of_an_earlier_zmon(job):
    job.train(100)
    job.update()
    job.account.peak_start, job.account.unrated_steps, job.account.launch_steps = None, 0, 0
    job.train(50)
    job.update()
    job.account.rate(0.005)
    # one update tells which steps are older, so the steps between two updates are not counted
    assert job.account.peak_seconds == 0
    job.train(100)
    job.update()
    job.account.rate(0.005)
    assert job.account.peak_seconds == pytest.approx(0.5)
    assert job.account.flops_ratio == pytest.approx(0.5 / (job.account.seconds - job.account.peak_start))
