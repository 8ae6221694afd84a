"""Tests of the diagnosis of a crash loop: what counts as one, what repeats in it, and when it is over."""

from dataclasses import replace

import pytest

from tests.build import NOW, raised, rank_state, snapshot, terminated
from tests.detectors.stalls import STALL
from zmon.job.restarts import without_progress
from zmon.schema.launch_end import LaunchEnd

ERROR = "ValueError: bad sample"


def end(number, step=118, rank=2, host="node-a", error=ERROR, saved=False, **changes):
    """Return the end of the launch with this number; each launch lasts 50 s, and the next one starts after 10 s."""
    began = NOW - 600 + 60 * number
    launch = LaunchEnd(
        attempt=number, start=began, began=began, ended=began + 50, step=step, steps=step, saved=saved,
        cause="rank_exited", ranks=(rank,), hosts=(host,), error=error,
    )  # fmt: skip
    return replace(launch, **changes)


def detect(*ends, ranks, time=None):
    """Return what the stall detector reports after these ends about a launch of these ranks."""
    now = ends[-1].ended + 40 if time is None else time
    launch = replace(snapshot(*ranks, time=now), earlier_ends=tuple(ends))
    return next(iter(STALL.detect(launch)), None)


def failing(step=118, message="bad sample", rank=2, **changes):
    """Return a launch that one rank ended with an exception a second ago, 30 s after the launch began."""
    fields = {"step": step, "steps": step, "step_seconds_total": 20.0, "open_seconds": 10.0, **changes}
    fields = {"restart_count": 2, "max_restarts": 20, **fields}
    dead = [terminated(other, 0.9, **fields) for other in range(4) if other != rank]
    return [raised(rank, 1.0, message, **fields), *dead]


def running(step, **changes):
    """Return a launch that has been training since the last end."""
    fields = {"step": step, "steps": step, "step_seconds_total": 0.1 * step, "open_seconds": 1.0, **changes}
    return [rank_state(rank, **fields) for rank in range(4)]


# -- what is a loop ----------------------------------------------------------------------------------------


def test_third_start_without_progress_is_a_crash_loop_that_pages_while_restarts_are_left():
    finding = detect(end(0), end(1), ranks=failing())
    assert (finding.cause, finding.severity) == ("crash_loop", "critical")
    assert (finding.ranks, finding.hosts, finding.step) == ((2,), ("node-a",), 118)
    assert finding.evidence.num_starts == 3
    assert finding.summary == (
        "3 starts in 2 min 29 s failed without progress: each ended at step 118 by rank 2 on node-a: ValueError: bad "
        "sample; the launcher has 18 restarts left, which will most likely fail as well"
    )


def test_second_failure_is_an_ordinary_warning():
    finding = detect(end(0), ranks=failing())
    assert (finding.cause, finding.severity) == ("rank_exited", "warning")


def test_failure_of_a_launch_that_a_supervisor_started_does_not_say_that_nothing_will_start_it():
    """The verdict stays: nobody knows whether the supervisor will start it once more."""
    finding = detect(end(0, attempt=0), ranks=failing(restart_count=0, max_restarts=0))
    assert (finding.cause, finding.severity, finding.ranks) == ("rank_exited", "critical", (2,))
    assert finding.summary.endswith(
        "no launcher will restart the job, but something started it again 10 s after its last end"
    )


def test_failure_after_the_last_restart_of_a_launcher_or_a_start_by_a_person_says_that_nothing_will_restart_it():
    by_launcher = failing(restart_count=1, max_restarts=1, attempt=1)
    by_person = failing(restart_count=0, max_restarts=0)
    now = end(0).ended + 1000
    for finding in (detect(end(0, attempt=0), ranks=by_launcher), detect(end(0), ranks=by_person, time=now)):
        assert "nothing will restart the job" in finding.summary


def test_failures_with_a_later_step_each_time_are_ordinary_warnings():
    finding = detect(end(0, step=100), end(1, step=500), end(2, step=900), ranks=failing(step=2000))
    assert (finding.cause, finding.severity) == ("rank_exited", "warning")


def test_failures_with_a_new_checkpoint_each_time_are_ordinary_warnings():
    """The numbers of steps begin again in each launch, which resumed the checkpoint of the one before."""
    ends = [end(0, step=118, saved=True), end(1, step=90, saved=True), end(2, step=110, saved=True)]
    assert detect(*ends, ranks=failing(step=70, last_checkpoint_time=NOW)).cause == "rank_exited"


def test_checkpoints_of_a_job_that_fails_the_same_way_each_time_are_no_progress():
    """The job saves checkpoints and does not resume them."""
    ends = [end(number, saved=True) for number in range(2)]
    assert detect(*ends, ranks=failing(last_checkpoint_time=NOW)).cause == "crash_loop"


def test_progress_begins_a_new_count():
    assert detect(end(0), end(1), end(2, step=400), ranks=failing(step=400, message="another")).cause == "rank_exited"
    assert len(without_progress([end(0), end(1), end(2, step=400), end(3, step=300)])) == 2


def test_start_long_after_the_last_failure_is_no_loop():
    """A person started the job again."""
    late = end(2, began=NOW + 3600, ended=NOW + 3650)
    assert detect(end(0), end(1), late, ranks=failing()).cause == "rank_exited"


def test_cancelled_launch_ends_the_loop():
    cancelled = [terminated(rank, 9.0, open_seconds=20.0) for rank in range(4)]
    assert detect(*map(end, range(3)), ranks=cancelled) is None


# -- what repeats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "last", "ranks", "hosts", "text", "advice"),
    [
        pytest.param(
            [end(0, rank=0), end(1, rank=3)], failing(), (), ("node-a",),
            "each ended at step 118, by other ranks each time, all on node-a", "take it out", id="same host",
        ),
        pytest.param(
            [end(0, rank=0, host="node-b"), end(1, rank=3, host="node-c")], failing(), (), (),
            "each ended at step 118, by another rank each time", "belongs to step 118", id="same step only",
        ),
        pytest.param(
            [end(0, host="node-b", step=120), end(1, host="node-c", step=90)], failing(step=100), (2,), ("node-a",),
            "they ended at steps 90 to 120 by rank 2, on another host each time", "look at its data",
            id="same rank only",
        ),
        pytest.param(
            [end(0, step=0), end(1, step=0)], failing(step=0), (2,), ("node-a",),
            "each ended before its first step by rank 2 on node-a", "configuration", id="before the first step",
        ),
        pytest.param(
            [end(0, error="OSError: disk"), end(1, error="KeyError: 7")], failing(), (2,), ("node-a",),
            "the errors differ, the last was ValueError: bad sample", "belongs to step 118", id="other errors",
        ),
    ],
)  # fmt: skip
def test_summary_says_what_repeats_and_what_does_not(ends, last, ranks, hosts, text, advice):
    finding = detect(*ends, ranks=last)
    assert (finding.cause, finding.ranks, finding.hosts) == ("crash_loop", ranks, hosts)
    assert text in finding.summary
    assert advice in finding.detail


def test_launcher_that_a_supervisor_starts_anew_makes_a_loop():
    """The attempt falls back to 0 each time, and the launcher has no restarts of its own."""
    ends = [end(number, attempt=0) for number in range(2)]
    finding = detect(*ends, ranks=failing(max_restarts=0, restart_count=0))
    assert finding.cause == "crash_loop"
    assert "restarts left" not in finding.summary


# -- one incident ------------------------------------------------------------------------------------------


def test_id_stays_the_same_for_all_launches_of_the_loop():
    ends = [end(number) for number in range(5)]
    ids = {detect(*ends[:2], ranks=failing()).id, detect(*ends[:3], ranks=failing()).id}
    ids |= {detect(*ends, ranks=failing(rank=1)).id, detect(*ends[:4], ranks=running(5)).id}
    assert len(ids) == 1


def test_loop_stays_open_while_the_next_launch_is_not_beyond_its_furthest_step():
    ends = [end(number) for number in range(3)]
    starting = running(0, activity="init", step_seconds_total=0.0)
    assert detect(*ends, ranks=starting).cause == "crash_loop"
    assert detect(*ends, ranks=running(118)).cause == "crash_loop"
    assert detect(*ends, ranks=running(125)).cause == "crash_loop"  # 0.7 s beyond


def test_loop_is_over_once_a_launch_has_trained_beyond_its_furthest_step():
    assert detect(*map(end, range(3)), ranks=running(219)) is None


def test_first_checkpoint_of_the_loop_ends_it():
    assert detect(*map(end, range(3)), ranks=running(20, last_checkpoint_time=NOW)) is None


def test_job_without_earlier_ends_is_no_loop():
    launch = snapshot(*running(50))
    assert STALL.detect(launch) == ()
