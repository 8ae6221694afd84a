"""Tests of launches and steps from the events of ranks."""

from bench.recovery.progress import Training


def training(*lines):
    """Return the training of ranks 0 and 1 that wrote the same lines, the second rank half a second later."""
    result = Training()
    for line in lines:
        what, seconds, number = line.split()
        result.add(0, line)
        result.add(1, f"{what} {float(seconds) + 0.5} {number}")
    return result


FIRST = ("began 100 11", "imported 102 1", "ready 103 0", "step 103.5 1", "step 104 2", "step 104.5 3")
FAILED = ("began 110 12", "imported 112 1")
SECOND = ("began 120 13", "imported 122 1", "ready 123 2", "step 123.5 3", "step 124 4")


def test_job_without_events_has_no_steps():
    assert Training().newest == (0.0, 0)
    assert Training().began is None


def test_newest_step_is_that_of_the_newest_launch_with_steps():
    assert training(*FIRST, *FAILED).newest == (104.5, 3)
    assert training(*FIRST, *FAILED, *SECOND).newest == (124.0, 4)


def test_step_is_reached_when_it_was_first_finished():
    job = training(*FIRST, *SECOND)
    assert [job.reached(number) for number in (3, 4, 5)] == [104.5, 124.0, None]


def test_training_begins_when_rank_0_is_ready_for_its_first_step():
    assert training(*FIRST, *SECOND).began == 103.0


def test_usual_step_is_the_median_of_the_newest_launch():
    slower = ("began 120 13", "step 130 3", "step 131 4", "step 132 5", "step 140 6")
    assert training(*FIRST, *slower).usual_seconds == 1.0


def test_relaunch_is_the_first_launch_with_steps():
    job = training(*FIRST, *FAILED, *SECOND)
    assert [(launch.began, launch.pid) for launch in job.relaunched(105.0)] == [(120.0, 13), (120.5, 13)]
    assert job.num_launches(105.0) == 2
    assert job.relaunched(130.0) == []
