"""Tests of leases: defaults by activity, and leases that follow from the job's own steps and earlier durations."""

import pytest

from zmon.job.lease import MAX_JOBS, MAX_LAUNCHES, Leases, StartTimes

QUICK = [0.02] * 100
STARTS = [40.0, 30.0, 50.0]


@pytest.mark.parametrize(
    ("activity", "steps", "earlier", "seconds"),
    [
        ("init", QUICK, [], 1800.0),
        ("eval", QUICK, [], 1800.0),
        ("checkpoint", QUICK, [], 900.0),
        ("compile", QUICK, [], 900.0),
        ("loader_start", QUICK, [], 300.0),
        ("done", QUICK, [], None),
        ("relocate", QUICK, [], 1800.0),  # a long activity would be a stall if it had the lease of a step
        # training follows the steps of the job
        ("train", [0.002] * 100, [], 1.5),
        ("train", [0.1] * 100, [], 1.5),
        ("train", [0.25] * 100, [], 3.75),
        ("train", [2.0] * 100, [], 30.0),
        ("train", [], [], 1800.0),  # the first step compiles, allocates and connects
        ("train", [0.02] * 4, [], 1800.0),
        ("train", [0.02] * 5, [], 1.5),
        ("train", [0.02] * 98 + [1.0] * 2, [], 15.0),  # it pauses every fifty steps, to log or to collect garbage
        # one pause does not lengthen the lease of training
        ("train", [0.3] * 19 + [13.0], [], 4.5),
        ("train", [0.3] * 59 + [13.0], [], 4.5),
        ("train", [0.3] * 98 + [13.0], [], 4.5),
        ("train", [0.3] * 99 + [13.0], [], pytest.approx(6.4, abs=0.1)),
        # a pause in the first steps does, because kernels are chosen then, and two pauses may be a habit
        ("train", [0.3] * 4 + [13.0], [], pytest.approx(187, abs=1)),
        ("train", [0.3] * 18 + [13.0], [], pytest.approx(161, abs=1)),
        ("train", [0.3] * 38 + [13.0] * 2, [], pytest.approx(123, abs=1)),
        # other activities follow their earlier durations
        ("eval", [], STARTS, 250.0),
        ("checkpoint", [], STARTS, 250.0),
        ("compile", [], STARTS, 250.0),
        ("loader_start", [], [30.0, 40.0, 20.0], 200.0),
        ("eval", [], STARTS[:2], 1800.0),  # two are too few
        ("checkpoint", [], STARTS[:2], 900.0),
        ("eval", [], [0.2] * 8, 60.0),
        ("checkpoint", [], [600.0] * 3, 900.0),  # the default is the longest
        ("loader_start", [], [100.0] * 3, 300.0),
        # and initialization the starts of earlier launches; so do the first steps
        ("init", [], STARTS, 250.0),
        ("init", [], STARTS[:2], 1800.0),
        ("init", [], [600.0] * 3, 1800.0),
        ("init", [], [3.0] * 8, 120.0),
        ("train", [], STARTS, 250.0),
        ("train", [], STARTS[:2], 1800.0),
    ],
)
def test_lease_follows_from_the_activity_the_steps_and_earlier_durations(activity, steps, earlier, seconds):
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


def test_only_the_last_launches_and_jobs_are_known():
    starts = StartTimes()
    for launch in range(MAX_LAUNCHES + 1):
        starts.add("ranker", launch, float(launch))
    assert starts.earlier("ranker", "next") == tuple(map(float, range(1, MAX_LAUNCHES + 1)))
    for job in range(MAX_JOBS):
        starts.add(f"job-{job}", "first", 1.0)
    assert starts.earlier("ranker", "next") == ()
    assert starts.earlier("job-0", "next") == (1.0,)
