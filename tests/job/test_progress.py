"""Tests of a job's progress: the time left with its interval, and when it is unknown."""

import pytest

from zmon.job.progress import Pace, progress
from zmon.schema.job import Progress, TimeLeft


def pace_of(*spans, start=1000.0, first=0):
    """Return the pace of a launch, from spans of time: seconds, steps finished in them, and True if it stalled."""
    pace, time, steps = Pace(), start, first
    pace.add(time, steps, stalled=False)
    for seconds, finished, *stalled in spans:
        for second in range(1, seconds + 1):
            pace.add(time + second, steps + second * finished // seconds, bool(stalled))
        time, steps = time + seconds, steps + finished
    return pace


STEADY = (600, 600)
LEFT = {  # spans of a launch, and the seconds that 100 more steps take: likely, fastest, slowest
    "steady": ([STEADY], (100, 100, 100)),
    "evaluations between the steps count": ([(100, 100), (20, 0)] * 8, (118, 110, 120)),
    "the first half was twice as fast": ([(300, 600), (600, 600)], (75, 50, 100)),
    "what was more than an hour ago does not count": ([(600, 60), (3600, 3600)], (100, 100, 100)),
    "a long step of 100 s": ([(100, 1)] * 6, (10_000, 10_000, 10_000)),
    "start-up before the first step does not count": ([(900, 0), STEADY], (100, 100, 100)),
    "a stall does not count": ([STEADY, (900, 0, "stalled"), STEADY], (100, 100, 100)),
    "the finding outlives its stall by some steps": ([STEADY, (90, 0, "stalled"), (5, 5, "stalled")], (100, 100, 100)),
}


@pytest.mark.parametrize(("spans", "expected"), LEFT.values(), ids=LEFT)
def test_time_left_is_the_remaining_steps_at_the_pace_of_the_last_hour(spans, expected):
    left = pace_of(*spans).time_left(100)
    assert (left.seconds, left.fastest_seconds, left.slowest_seconds) == pytest.approx(expected, rel=0.02)


UNKNOWN = {
    "no step": [(600, 0)],
    "too short": [(170, 170)],
    "too few steps": [(600, 3)],
    "start-up, then too short": [(900, 0), (100, 100)],
}


@pytest.mark.parametrize("spans", UNKNOWN.values(), ids=UNKNOWN)
def test_time_left_is_unknown_until_enough_is_measured(spans):
    assert pace_of(*spans).time_left(100) is None


def test_steps_before_a_resume_are_not_its_pace():
    resumed = pace_of(STEADY, first=30_000)
    assert resumed.time_left(100).seconds == pytest.approx(100, rel=0.02)


def test_pace_begins_anew_if_fewer_steps_are_reported():
    pace = pace_of(STEADY)
    pace.add(1601.0, 5, stalled=False)  # of a rank that started again
    assert pace.time_left(100) is None


@pytest.mark.parametrize("seconds", [-7200.0, 600.0, 7200.0])
def test_hub_clock_that_was_set_changes_no_pace(seconds):
    pace = pace_of((300, 300))
    pace.move_times(seconds)
    for second in range(300):
        pace.add(1300.0 + seconds + second, 300 + second, stalled=False)
    assert pace.time_left(100).seconds == pytest.approx(100, rel=0.02)


def test_marks_are_few_however_long_the_job_runs():
    pace = pace_of((20_000, 20_000))
    assert len(pace._marks) <= 242  # an hour of marks, 15 s apart, and the ones at its ends


KNOWN, LATER = pace_of(STEADY), "until 3 min and 4 steps are measured"
PROGRESS = {  # planned steps, step, state, pace: the line
    "training": (1000, 880, "train", KNOWN, "step 880 of 1,000 (88 %), about 2 min left (2 min to 2 min)"),
    "evaluating": (1000, 940, "eval", KNOWN, "step 940 of 1,000 (94 %), about 1 min left (1 min to 1 min)"),
    "just begun": (1000, 1, "train", Pace(), f"step 1 of 1,000 (0 %), time left unknown {LATER}"),
    "nearly": (1000, 999, "train", Pace(), f"step 999 of 1,000 (99 %), time left unknown {LATER}"),
    "stalled": (1000, 940, "stalled", KNOWN, "step 940 of 1,000 (94 %), time left unknown while the job is stalled"),
    "silent": (100, 50, "unknown", KNOWN, "step 50 of 100 (50 %), time left unknown while no agent reports its ranks"),
    "done": (1000, 1000, "done", KNOWN, "step 1,000 of 1,000 (100 %)"),
    "done, and the counter is at the next step": (1000, 1001, "train", KNOWN, "step 1,000 of 1,000 (100 %)"),
    "ended early": (1000, 940, "exited", KNOWN, "step 940 of 1,000 (94 %)"),
    "longer than planned": (1000, 1200, "train", KNOWN, "step 1,200 of 1,000 (100 %)"),
}


@pytest.mark.parametrize(("planned", "step", "state", "pace", "line"), PROGRESS.values(), ids=PROGRESS)
def test_progress_is_a_line_with_the_share_of_the_steps_and_the_time_left(planned, step, state, pace, line):
    assert progress(planned, step, state, pace).text == line


def test_job_without_planned_steps_has_no_progress():
    assert progress(None, 12_000, "train", KNOWN) is None


def test_interval_is_in_the_line():
    left = TimeLeft(11_400.0, 10_200.0, 13_200.0)
    line = "step 12,000 of 50,000 (24 %), about 3 h 10 min left (2 h 50 min to 3 h 40 min)"
    assert Progress(50_000, 12_000, left).text == line


def test_ratio_is_at_most_one():
    assert [Progress(100, step).ratio for step in (25, 50, 200)] == [0.25, 0.5, 1.0]
