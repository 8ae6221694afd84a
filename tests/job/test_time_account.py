"""Tests of the time account: the time categories of a job sum to its wall-clock, over all of its launches.

`SimulatedJob.play` explains the events of a story, such as `train 50, wait 3, update`. A step takes STEP = 0.02 s.
The last tests are about the floating-point operations and the histogram of an account.
"""

from dataclasses import replace
from random import Random

import pytest

from tests.build import step_record
from tests.job.simulated_job import STEP, SimulatedJob, rounded_categories
from tests.steps import aligned
from zmon.job.time_account import Account, LaunchTime

SEEDS = 40
RESTART = ", die, update, restart 4, train 50, update"
STALL = "train 100, update" + ", wait 1, update stalled" * 30
STALLED_SECONDS = 30 - STEP  # of a wait of 30 s: a stall begins after one usual step


@pytest.fixture
def job():
    """Return a simulated job that has just started."""
    return SimulatedJob()


def in_steps(seconds, **categories):
    """Return the categories of a job whose steps took this long; each computes half of the time."""
    return {"forward": seconds / 2, "all_to_all": seconds / 2, **categories}


def may_still_arrive(num_steps):
    """Return the seconds in steps whose records may still arrive: 1 s, and three times the awaited steps."""
    return 1.0 + 3 * num_steps * STEP


TIMES = {
    "each activity has its time": (
        "wait 3, update, train 100, update, eval 5, update, wait 2, checkpoint 1, train 50, update",
        in_steps(3, init=3, eval=7, checkpoint=1)),
    "an unknown activity as well": ("train 100, tune 5, update, wait 2, train 50, update", in_steps(3, tune=7)),
    "a batch is fetched before an evaluation": ("train 10, wait 0.3, eval 1, update", in_steps(0.2, other=0.3, eval=1)),
    "a step is not finished": ("train 10, wait 0.015, update", in_steps(0.2)),
    "a stall counts once": (STALL, in_steps(2, stall=STALLED_SECONDS)),
    "a stall is no communication": (
        f"{STALL}, train 50, update stalled, train 50, update", in_steps(4, stall=STALLED_SECONDS, all_to_all=2.02)),
    "records arrive after a stall": (
        "train 100, update, wait 30, update stalled, train 50, update late, update",
        in_steps(3, stall=STALLED_SECONDS, all_to_all=1.52)),
    "a short wait is no stall": ("train 100, wait 0.04, update stalled", in_steps(2)),
    "records may still arrive": ("train 50, update late", {}),
    "records never arrive": ("train 50, update late, done 6, update late", {"unknown": 1}),
    "the hub was down": (
        "train 100, update, eval 100, train 400, eval 50, lose all but 50, update",
        in_steps(3, eval=150, unknown=7 - may_still_arrive(1))),
    "the hub starts late": ("train 5000, lose all but 50, update", in_steps(1, unknown=99 - may_still_arrive(2))),
    "a restart begins after the last step": (
        "wait 2, train 100, update, wait 0.5, die, update, wait 7, update, restart 40, wait 3, train 50, update",
        in_steps(3, init=5, restart=40.5)),
    "a restart takes hours": ("train 50, update, die, update, restart 10800, update", in_steps(1, restart=10800)),
    "another job starts after a day": ("train 50, update, die, update, restart 86410, update", {}),
    "another job starts after a good end": ("train 50, done 0, update, restart 10, wait 2, update", {"init": 2}),
    "ranks die in a stall": (
        "train 100, update, wait 600, die, update, wait 1, update stalled", in_steps(2, restart=600)),
    "a finished job does not grow": ("train 50, done 0, update, wait 100, update", in_steps(1)),
}  # fmt: skip


@pytest.mark.parametrize(("story", "categories"), TIMES.values(), ids=TIMES)
def test_time_of_a_story_is_divided_into_the_expected_categories(job, story, categories):
    account = job.play(story)
    assert rounded_categories(account) == pytest.approx(categories, abs=1e-6)
    assert account.gpu_seconds == pytest.approx({cause: 4 * seconds for cause, seconds in account.causes.items()})


GOODPUTS = {
    "no update yet": ("wait 0", None, 0, ""),
    "one launch": ("wait 1, train 50, update", 0.5, 0, ""),
    "records are missing": (  # the box has the time in steps
        "train 1000, update late, update late, update late", 1.0, 0, ""),
    "steps after the last checkpoint are lost": (
        f"train 100, checkpoint 1, train 30, update, train 20, update{RESTART}", 3 / 9, 1.0, ""),
    "the last checkpoint is of an earlier launch": (
        f"train 100, checkpoint 0, train 1, update{RESTART}{RESTART}", 3 / 12.02, 1.02, ""),
    "no checkpoint before a restart": (f"train 100, update{RESTART}", None, 2.0, "saw no checkpoint before a restart"),
}  # fmt: skip


@pytest.mark.parametrize(("story", "ratio", "lost", "doubt"), GOODPUTS.values(), ids=GOODPUTS)
def test_goodput_is_the_share_of_time_in_steps_that_were_not_lost(job, story, ratio, lost, doubt):
    account = job.play(story)
    assert account.goodput_ratio == (ratio if ratio is None else pytest.approx(ratio))
    assert account.lost == pytest.approx(lost)
    assert bool(account.doubt) == bool(doubt)
    assert doubt in account.doubt


def test_goodput_is_unknown_if_the_clock_moved_back_between_launches(job):
    job.play("train 100, checkpoint 0, train 1, update, die, update, restart 4")
    job.time -= 3600
    account = job.play("wait 1, update")
    assert account.goodput_ratio is None
    assert "clock was set back" in account.doubt
    assert "restart" not in account.causes


def test_end_of_a_dead_launch_does_not_move_backwards(job):
    job.play("train 100, update, wait 600, die, update")
    job.gone_seconds += 500  # a restarted agent knows only the last sign of life, which is older
    job.update()
    job.gone_seconds -= 500
    assert job.play("restart 10, update").seconds == pytest.approx(job.total_seconds)


def test_missing_rank_does_not_start_another_launch(job):
    """The rank may be missing because it is unwatched."""
    job.play("train 50, update")
    snapshot = job.snapshot_now()
    without_rank_0 = replace(snapshot, ranks=snapshot.ranks[1:], missing=(0,))
    job.account.update(without_rank_0, (), typical_seconds=STEP, stalled=False)
    assert job.account.start.run_uid == "0-0"


def test_ranks_that_do_not_wait_for_each_other_count_as_the_first_rank(job):
    """The last of four takes three times as long, and nobody waits for it."""
    job.change_activity("train")
    job.steps, job.step_seconds_total = 1, 0.020
    job.new_steps = [aligned(1, [step_record(1, {"forward": f}, {}) for f in (0.020, 0.020, 0.020, 0.060)])]
    snapshot = job.snapshot_now()
    ranks = tuple(replace(r, sequences={}, steps=1) for r in snapshot.ranks)
    job.account.update(replace(snapshot, ranks=ranks), job.new_steps, typical_seconds=STEP, stalled=False)
    assert job.account.causes == pytest.approx({"forward": 0.020})


def test_pause_of_all_ranks_in_unsampled_steps_is_not_imbalance(job):
    """Steps are short, and one of sixteen is sampled, with the mean of the sixteen."""
    job.change_activity("train")
    quick = aligned(16, [step_record(16)] * 4)
    mean = aligned(16, [step_record(16, {"forward": 0.110}, {"all_to_all": 0.010})] * 4)
    job.steps, job.step_seconds_total = 16, 16 * 0.120
    job.new_steps = [replace(quick, stands_for=16, mean=mean)]
    job.update()
    assert job.account.causes.get("imbalance", 0.0) == 0.0
    assert sum(job.account.causes.values()) == pytest.approx(16 * 0.120)


def test_time_is_counted_once_after_the_first_rank_was_unwatched(job):
    job.play("train 50, update, train 50")
    snapshot = job.snapshot_now()
    hidden = replace(snapshot, ranks=snapshot.ranks[1:], unwatched=snapshot.ranks[:1])
    job.account.update(hidden, (), typical_seconds=STEP, stalled=False)
    assert job.account.seconds == pytest.approx(50 * STEP)
    job.update()
    assert job.account.seconds == pytest.approx(job.total_seconds)


def test_update_during_a_change_of_activity_counts_nothing_twice(job):
    """The totals in the box are newer than the activity that was read."""
    job.play("eval 5, update")
    snapshot = job.snapshot_now()
    between = {"eval": 5.05}
    torn = replace(snapshot, ranks=tuple(replace(r, between_seconds=between, open_seconds=0.0) for r in snapshot.ranks))
    job.account.update(torn, (), typical_seconds=STEP, stalled=False)
    assert rounded_categories(job.account)["eval"] == 5.05


@pytest.mark.parametrize("seed", range(SEEDS))
def test_categories_sum_to_wall_clock_after_random_events_and_never_decrease(seed):
    """The sum holds to 0.1 %, except for the step that is unfinished at the last update."""
    random, job, before = Random(seed), SimulatedJob(), {}
    for _ in range(60):
        event = random.choice(["train"] * 4 + ["eval", "checkpoint", "stall", "die", "idle"])
        if event == "train":
            job.train(random.randint(1, 200))
        elif event in ("eval", "checkpoint") and job.activity != "init":
            job.change_activity(event)
            job.wait(random.uniform(0, 30))
        elif event == "stall" and job.activity == "train":
            for _ in range(random.randint(1, 9)):
                job.wait(random.uniform(0.2, 2))
                job.update(stalled=True)
            if random.random() < 0.5:
                job.train(20)
                job.update(stalled=True)
        elif event == "die":
            job.update(with_records=random.random() < 0.5)
            job.play(f"wait {random.uniform(0, 2)}, die, update, wait {random.uniform(0, 10)}")
            job.restart(after=job.gone_seconds + random.uniform(0, 60))
            job.wait(random.uniform(0, 10))
        else:
            job.wait(random.uniform(0, 1))
        if random.random() < 0.7:
            job.update(stalled=random.random() < 0.3, with_records=random.random() < 0.8)
        assert all(job.account.causes[cause] >= seconds for cause, seconds in before.items())
        before = dict(job.account.causes)
    assert job.play("train 100, update").seconds == pytest.approx(job.total_seconds, rel=1e-3)
    assert all(seconds >= 0 for seconds in job.account.causes.values())


def test_flops_ratio_is_over_the_wall_clock_since_the_peak_is_known():
    launch = LaunchTime("uid-0", unsplit=8.0)  # steps whose categories are not known yet
    causes = {"init": 5.0, "forward": 10.0}
    account = Account("job", causes, peak_seconds=4.0, peak_start=3.0, start=launch)
    assert account.flops_ratio == pytest.approx(4.0 / (5.0 + 10.0 + 8.0 - 3.0))
    assert Account("job").flops_ratio is None


def test_histogram_bucket_includes_its_upper_bound():
    account = Account("job")
    steps = [aligned(n, [step_record(n, {"forward": s}, {})]) for n, s in enumerate((0.0005, 0.001, 0.0011, 100.0))]
    account.observe(steps, (0.001, 0.002, 65.536))
    account.observe([aligned(9, [step_record(9)], stands_for=8)], (0.001, 0.002, 65.536))
    assert account.histogram == [2, 1, 8, 1]
    assert account.histogram_seconds == pytest.approx(0.0005 + 0.001 + 0.0011 + 100 + 8 * 0.020)


def test_operations_count_over_wall_clock_with_its_pauses(job):
    """A step of 20 ms whose operations take 5 ms at the peak: 100 of them are 0.5 s of 2 s in steps and 3 s before."""
    assert job.play("wait 3, train 60, update").flops_ratio == 0
    job.play("train 40, update")
    job.account.add_operations(0.005)
    assert job.account.flops_ratio == pytest.approx(0.5 / job.account.seconds)
    job.play("eval 5, update")
    job.account.add_operations(0.005)
    assert job.account.flops_ratio == pytest.approx(0.5 / job.account.seconds)


def test_operations_are_followed_from_now_on_in_an_account_of_an_earlier_zmon(job):
    job.play("train 100, update")
    # as stored by a zmon that did not follow operations
    job.account.peak_start = None
    job.account.unrated_steps = job.account.launch_steps = 0
    job.play("train 50, update")
    job.account.add_operations(0.005)
    # one update tells which steps are older, so the steps between two updates are not counted
    assert job.account.peak_seconds == 0
    job.play("train 100, update")
    job.account.add_operations(0.005)
    assert job.account.peak_seconds == pytest.approx(0.5)
    assert job.account.flops_ratio == pytest.approx(0.5 / (job.account.seconds - job.account.peak_start))
