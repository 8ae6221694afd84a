"""Tests of the record of a job that a fault ended: what begins it, what changes it, what ends it."""

from dataclasses import replace

import pytest

from tests.build import JOB, NOW, disconnected, finding, raised, rank_state, snapshot, terminated, words
from zmon.job import ended_job
from zmon.job.ended_job import SHOWN_SECONDS, after_launch
from zmon.job.restarts import launch_end
from zmon.schema.job import JobView

VIEW = JobView(
    job_id=JOB, attempt=0, world_size=4, ranks_seen=4, state="exited", step=100, step_seconds=0.02,
    step_seconds_p95=0.03, samples_per_second=500.0, report={"loss": 0.5}, time={"forward": 3.0}, hosts=("node-a",),
    labels={"owner": "ann"}, findings=("f1",),
)  # fmt: skip
FAULT = finding(cause="rank_exited", summary="rank 2 on node-a exited at step 100: ValueError: bad sample")


def ended_launch(gone=1.0, start=NOW - 60, **changes):
    """Return the snapshot of a launch whose ranks all raised an exception `gone` seconds ago."""
    return snapshot(*(raised(rank, gone, start=start, **changes) for rank in range(4)))


def running(step=1, **changes):
    """Return a snapshot of the next launch of the job, which has finished `step` steps."""
    fields = {"start": NOW, "attempt": 1, "step": step, "steps": step, "step_seconds_total": 0.02 * step, **changes}
    return snapshot(*(rank_state(rank, run_uid=f"next-{rank}", **fields) for rank in range(4)))


def with_end(record, snapshot_, fault, view):
    """Return the record after the hub has seen that a fault ended the launch of this snapshot."""
    return ended_job.with_end(record, snapshot_, fault, launch_end(snapshot_, fault), view)


@pytest.fixture
def record():
    """Return the record of a job whose first launch FAULT ended."""
    return with_end(None, ended_launch(), FAULT, lambda: VIEW)


def test_record_has_the_end_and_its_reason(record):
    end = record.ended(NOW)
    assert (end.cause, end.summary, end.finding) == ("rank_exited", FAULT.summary, "f1")
    assert (end.time, end.step, end.ranks, end.hosts) == (NOW - 1.0, 100, (2,), ("node-a",))
    # the view has no figures of a running job
    assert (record.view.step_seconds, record.view.samples_per_second, record.view.findings) == (None, None, ())
    assert (record.view.labels, record.view.report) == ({"owner": "ann"}, {"loss": 0.5})
    assert record.view.has_failed


def test_record_stays_the_same_while_the_job_stays_ended(record):
    later = replace(ended_launch(gone=61.0), time=NOW + 60)
    text_of_later = replace(FAULT, detail="The last checkpoint was written 60 s ago.")
    assert with_end(record, later, text_of_later, lambda: VIEW) is record


def test_record_keeps_its_time_when_the_severity_rises(record):
    warning = with_end(None, ended_launch(), replace(FAULT, severity="warning"), lambda: VIEW)
    critical = with_end(warning, ended_launch(gone=40.0), FAULT, lambda: VIEW)
    assert (critical.ended(NOW).severity, critical.ended(NOW).time) == ("critical", NOW - 1.0)
    assert len(critical.ends) == 1


def test_end_is_shown_for_a_day(record):
    assert record.ended(NOW + SHOWN_SECONDS - 2) is not None  # the launch ended a second before NOW
    assert record.ended(NOW + SHOWN_SECONDS) is None


def test_earlier_launch_does_not_replace_a_later_end(record):
    """The agent of the later launch is silent, so the earlier one is the newest that is known."""
    older = ended_launch(start=NOW - 600, run_uid="older")
    assert with_end(record, older, replace(FAULT, id="f0"), lambda: VIEW) is record


def test_next_launch_that_fails_is_another_end(record):
    failed = running(step=5, alive=False, gone_seconds=1.0, exit_status="exit code 1")
    second = with_end(record, failed, replace(FAULT, id="f2"), lambda: VIEW)
    assert second.ended(NOW).finding == "f2"
    assert [end.attempt for end in second.ends] == [0, 1]
    assert second.earlier_ends(failed) == record.ends


NO_CULPRIT = [disconnected(rank, 60.0, run_uid=f"next-{rank}", start=NOW, steps=0) for rank in range(4)]
BY_SIGNAL = {"exit_status": "exit code 143", "last_words": words("exception", "builtins.SystemExit", "143")}
LAUNCHES = {  # launches after the end, and whether the record stays
    "a newer launch has not finished a step": (running(step=0), True),
    # no rank reached another one, so nobody is a culprit; the launch failed all the same
    "an exception ended a newer launch, without a culprit": (snapshot(*NO_CULPRIT), True),
    # the reports of another host may show that its owner ended it
    "a signal has just ended all ranks": (snapshot(*(terminated(rank, 2.0) for rank in range(4))), True),
    "the boxes of one host are pruned first": (snapshot(*(raised(rank, 900.0) for rank in (0, 1))), True),
    "the newest launch is silent, and an earlier one is known": (ended_launch(start=NOW - 600, run_uid="older"), True),
    "a newer launch finished": (
        running(0, activity="done", alive=False, gone_seconds=1.0, exit_status="exit code 0"), False),
    "the owner ended a newer launch": (running(3, alive=False, gone_seconds=60.0, exit_status="signal SIGTERM"), False),
    "exceptions for a signal ended a newer launch": (running(3, alive=False, gone_seconds=60.0, **BY_SIGNAL), False),
    "the ranks of a newer launch had started another one": (running(0, superseded=True), False),
    "a rank was only unwatched": (snapshot(*(raised(rank) for rank in range(3)), rank_state(3)), False),
    "the owner ended the launch after all": (snapshot(*(terminated(rank, 20.0) for rank in range(4))), False),
    "a newer launch is beyond the last step for some seconds": (running(step=700), False),
    "a newer launch has a checkpoint": (running(step=2, last_checkpoint_time=NOW), False),
}  # fmt: skip


@pytest.mark.parametrize(("launch", "stays"), LAUNCHES.values(), ids=LAUNCHES)
def test_record_stays_until_a_launch_makes_progress_or_ends_well(record, launch, stays):
    assert after_launch(record, launch) is (record if stays else None)


def test_rank_of_the_last_launch_that_lives_after_all_leaves_the_end_before_it(record):
    failed = running(step=5, alive=False, gone_seconds=1.0, exit_status="exit code 1")
    second = with_end(record, failed, replace(FAULT, id="f2"), lambda: VIEW)
    left = after_launch(second, running(step=5))
    assert (left.ends, left.ended(NOW)) == (record.ends, None)


def test_clock_that_is_ahead_does_not_make_an_ended_launch_the_newest():
    record = with_end(None, ended_launch(start=NOW + 900, open_seconds=58.0), FAULT, lambda: VIEW)
    failed = running(step=5, alive=False, gone_seconds=1.0, exit_status="exit code 1")
    assert len(with_end(record, failed, FAULT, lambda: VIEW).ends) == 2
    assert after_launch(record, running(step=700)) is None


@pytest.mark.parametrize("step", [1, 101])
def test_end_is_hidden_once_a_newer_launch_steps_but_a_crash_loop_may_go_on(record, step):
    stepped = after_launch(record, running(step=step))
    assert (stepped.ended(NOW), stepped.ends) == (None, record.ends)
