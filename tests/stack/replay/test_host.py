"""Tests of the answers of a recorded agent: its report of a time, steps by cursor, silence, and the repeated end."""

import pytest

from tests.build import JOB, agent_report, plan, rank_state
from zmon.schema.api import RankEvidence, SnapshotRequest
from zmon.schema.steps import SAME_SIZE_SENT, START, STEP, Steps
from zmon.stack.replay import HostRecording, RecordedEvidence, RecordedReport, Recording
from zmon.stack.replay.host import RecordedHost

LATER = 10_000.0  # seconds from the recording to its replay
BEGAN, MONOTONIC = 1000.0, 50.0  # unix and monotonic seconds at which the recording began
RANK_STARTED = 900.0  # unix seconds
PLANS = {"uid-0": plan(("users",))}
NUM_REPORTS = 21  # one a second, two steps in each


def report(second):
    """Return the report of a rank at this second, with the steps of the second before."""
    rank = rank_state(0, steps=2 * second, step=2 * second, last_step_time=BEGAN + second, start=RANK_STARTED)
    rows = [
        (number, round((MONOTONIC + number / 2) * 1e9), 10 * number)
        for number in (2 * second - 1, 2 * second)
        if number > 0
    ]
    steps = {JOB: (Steps.from_rows((STEP, START, SAME_SIZE_SENT), {rank.run_uid: rows}),)}
    times = {"time": BEGAN + second, "monotonic": MONOTONIC + second}
    return agent_report(rank, **times, steps=steps, plans=PLANS, plans_version="v1")


def recorded_host(silent_from=NUM_REPORTS):
    """Return a recorded host that answers until `silent_from`, in seconds; by default until the end."""
    reports = [
        RecordedReport(float(second), report(second) if second < silent_from else None) for second in range(NUM_REPORTS)
    ]
    evidence = [RecordedEvidence(at, RankEvidence(JOB, 0, stack=f"at {at:g}")) for at in (8.0, 12.0)]
    host = HostRecording("node-a", reports, evidence)
    recording = Recording("a title", JOB, BEGAN, fault=5.0, ends=20.0, repeats_from=10.0, hosts=(host,))
    return RecordedHost(recording, host)


def numbers(answer, column=STEP):
    """Return a column of the steps in an answer, by default their numbers."""
    return [number for part in answer.steps.get(JOB, ()) for number in part.column(column)]


@pytest.mark.parametrize(
    ("at", "second", "steps"),
    [(0.0, 0, 0), (7.9, 7, 14), (20.0, 20, 40), (25.5, 25, 50), (30.0, 30, 60), (101.0, 101, 202)],
)
def test_report_is_that_of_the_time_and_goes_on_after_the_end(at, second, steps):
    answer = recorded_host().report(at, LATER, SnapshotRequest())
    assert answer.time == BEGAN + second + LATER
    assert answer.monotonic == MONOTONIC + second
    (rank,) = answer.ranks
    assert (rank.steps, rank.step) == (steps, steps)
    assert rank.start == RANK_STARTED + LATER
    assert rank.last_step_time == answer.time
    assert answer.steps == {}


def test_each_step_is_sent_once_in_order_also_after_the_end():
    host, since, sent = recorded_host(), -1, []
    for quarter in range(0, 240):  # of a second, up to 59.75 s
        answer = host.report(quarter / 4, LATER, SnapshotRequest(since=since))
        since = answer.cursor
        sent += numbers(answer)
    assert sent == list(range(1, 2 * 59 + 1))  # two steps a second


def test_clock_and_bytes_of_steps_go_on_after_the_end():
    answer = recorded_host().report(59.0, LATER, SnapshotRequest(since=0))
    assert [start / 1e9 for start in numbers(answer, START)] == [MONOTONIC + step / 2 for step in numbers(answer)]
    assert numbers(answer, SAME_SIZE_SENT) == [10 * step for step in numbers(answer)]


def test_history_has_the_last_steps_only():
    assert numbers(recorded_host().report(10.0, LATER, SnapshotRequest(since=0, last=3))) == [18, 19, 20]


def test_other_jobs_are_left_out():
    host = recorded_host()
    assert host.report(3.0, LATER, SnapshotRequest(job_id="another", since=0)).ranks == ()
    assert host.report(3.0, LATER, SnapshotRequest(job_id=JOB)).ranks != ()


@pytest.mark.parametrize(("known", "sent"), [("", PLANS), ("v0", PLANS), ("v1", {})])
def test_plans_are_sent_unless_the_hub_has_this_version(known, sent):
    assert recorded_host().report(3.0, LATER, SnapshotRequest(plans=known)).plans == sent


def test_host_that_was_silent_is_silent_again():
    host = recorded_host(silent_from=6)
    assert host.report(5.9, LATER, SnapshotRequest()) is not None
    for at in (6.0, 19.0, 35.0):
        assert host.report(at, LATER, SnapshotRequest()) is None


@pytest.mark.parametrize(("at", "stack"), [(1.0, "at 8"), (11.9, "at 8"), (12.0, "at 12"), (19.0, "at 12")])
def test_evidence_is_the_latest_or_else_the_first(at, stack):
    assert recorded_host().evidence(at, LATER, 0).stack == stack


def test_rank_without_evidence_has_none():
    assert recorded_host().evidence(9.0, LATER, 3) is None
