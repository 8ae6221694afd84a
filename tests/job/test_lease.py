"""Tests of leases: defaults by activity, and leases that follow from the job's own steps and earlier durations."""

import pytest

from zmon.job.lease import MAX_JOBS, MAX_LAUNCHES, Leases, StartTimes

QUICK = [0.02] * 100
STARTS = [40.0, 30.0, 50.0]

LEASES = {
    "initialization": ("init", QUICK, [], 1800.0),
    "evaluation": ("eval", QUICK, [], 1800.0),
    "checkpoint": ("checkpoint", QUICK, [], 900.0),
    "compilation": ("compile", QUICK, [], 900.0),
    "start of loaders": ("loader_start", QUICK, [], 300.0),
    "the end has none": ("done", QUICK, [], None),
    # A long activity would be a stall if it had the lease of a step.
    "a long activity without a name": ("relocate", QUICK, [], 1800.0),
    # training follows the steps of the job
    "steps of 2 ms": ("train", [0.002] * 100, [], Leases.train_floor_seconds),
    "steps of 0.1 s": ("train", [0.1] * 100, [], Leases.train_floor_seconds),
    "steps of 0.25 s": ("train", [0.25] * 100, [], 15 * 0.25),
    "steps of 2 s": ("train", [2.0] * 100, [], 15 * 2.0),
    "no step yet: it compiles, allocates and connects": ("train", [], [], Leases.init_seconds),
    "too few steps": ("train", [0.02] * 4, [], Leases.init_seconds),
    "just enough steps": ("train", [0.02] * 5, [], Leases.train_floor_seconds),
    "a pause every fifty steps, to log or to collect garbage": ("train", [0.02] * 98 + [1.0] * 2, [], 15 * 1.0),
    # one pause does not lengthen the lease of training, which is 15 × the p99
    "one pause in 20 steps": ("train", [0.3] * 19 + [13.0], [], 15 * 0.3),
    "one pause in 60 steps": ("train", [0.3] * 59 + [13.0], [], 15 * 0.3),
    "one pause in 99 steps": ("train", [0.3] * 98 + [13.0], [], 15 * 0.3),
    "one pause in 100 steps": ("train", [0.3] * 99 + [13.0], [], pytest.approx(6.4, abs=0.1)),
    # a pause in the first steps does, because kernels are chosen then, and two pauses may be a habit
    "a pause in the first steps, when kernels are chosen": ("train", [0.3] * 4 + [13.0], [], pytest.approx(187, abs=1)),
    "a pause in 19 steps": ("train", [0.3] * 18 + [13.0], [], pytest.approx(161, abs=1)),
    "two pauses may be a habit": ("train", [0.3] * 38 + [13.0] * 2, [], pytest.approx(123, abs=1)),
    # other activities follow their earlier durations
    "evaluations": ("eval", [], STARTS, 5 * 50.0),
    "checkpoints": ("checkpoint", [], STARTS, 5 * 50.0),
    "compilations": ("compile", [], STARTS, 5 * 50.0),
    "starts of loaders": ("loader_start", [], [30.0, 40.0, 20.0], 5 * 40.0),
    "two evaluations are too few": ("eval", [], STARTS[:2], Leases.eval_seconds),
    "two checkpoints are too few": ("checkpoint", [], STARTS[:2], Leases.checkpoint_seconds),
    "short evaluations": ("eval", [], [0.2] * 8, Leases.stay_floor_seconds),
    "long checkpoints": ("checkpoint", [], [600.0] * 3, Leases.checkpoint_seconds),
    "long starts of loaders": ("loader_start", [], [100.0] * 3, Leases.loader_start_seconds),
    # and initialization the starts of earlier launches; so do the first steps
    "starts of launches": ("init", [], STARTS, 5 * 50.0),
    "starts of two launches are too few": ("init", [], STARTS[:2], Leases.init_seconds),
    "long starts of launches": ("init", [], [600.0] * 3, Leases.init_seconds),
    "short starts of launches": ("init", [], [3.0] * 8, Leases.init_floor_seconds),
    "first steps after launches": ("train", [], STARTS, 5 * 50.0),
    "first steps after two launches": ("train", [], STARTS[:2], Leases.init_seconds),
}


@pytest.mark.parametrize(("activity", "steps", "earlier", "seconds"), LEASES.values(), ids=LEASES)
def test_lease_follows_from_what_the_rank_has_done_before(activity, steps, earlier, seconds):
    assert Leases().seconds(activity, steps, earlier) == seconds


def test_lease_thresholds_can_be_set():
    assert Leases(train_floor_seconds=5.0).seconds("train", [0.02] * 10) == 5.0
    assert Leases(eval_seconds=60.0).seconds("eval", []) == 60.0
    assert Leases(compile_seconds=60.0).seconds("compile", []) == 60.0


def test_slowest_rank_is_the_start_of_its_launch_for_later_launches_of_the_job():
    starts = StartTimes()
    for seconds in (3.0, 5.0, 4.0):
        starts.add("ranker", "first", seconds)
    assert starts.earlier("ranker", "second") == (5.0,)
    assert starts.earlier("ranker", "first") == starts.earlier("other", "second") == ()


def test_only_the_last_launches_of_a_job_are_known():
    starts = StartTimes()
    for launch in range(MAX_LAUNCHES + 1):
        starts.add("ranker", launch, float(launch))
    assert starts.earlier("ranker", "next") == tuple(map(float, range(1, MAX_LAUNCHES + 1)))


def test_only_the_last_jobs_are_known():
    starts = StartTimes()
    for job in range(MAX_JOBS + 1):
        starts.add(f"job-{job}", "first", 1.0)
    assert starts.earlier("job-0", "next") == ()
    assert starts.earlier("job-1", "next") == (1.0,)
