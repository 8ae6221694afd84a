"""Tests of the start times of earlier launches: the slowest rank counts, and memory is bounded."""

from zmon.job.start_times import MAX_JOBS, MAX_LAUNCHES, StartTimes


def test_the_slowest_rank_is_the_start_of_its_launch() -> None:
    starts = StartTimes()
    for seconds in (3.0, 5.0, 4.0):
        starts.add("ranker", "first", seconds)
    assert starts.earlier("ranker", "second") == (5.0,)


def test_a_launch_does_not_learn_from_itself_or_from_other_jobs() -> None:
    starts = StartTimes()
    starts.add("ranker", "first", 3.0)
    assert starts.earlier("ranker", "first") == ()
    assert starts.earlier("other", "second") == ()


def test_only_the_last_launches_and_jobs_are_known() -> None:
    starts = StartTimes()
    for launch in range(MAX_LAUNCHES + 1):
        starts.add("ranker", launch, float(launch))
    assert starts.earlier("ranker", "next") == tuple(map(float, range(1, MAX_LAUNCHES + 1)))
    for job in range(MAX_JOBS):
        starts.add(f"job-{job}", "first", 1.0)
    assert starts.earlier("ranker", "next") == ()
    assert starts.earlier("job-0", "next") == (1.0,)
