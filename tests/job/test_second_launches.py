"""Tests of launches that one user starts under one job id: two that live are two jobs, a restart is none."""

from dataclasses import replace

import pytest

from tests.build import JOB, NOW, agent_report, dead, rank_state, words
from zmon.job.shared_ids import SharedIds, renamed
from zmon.job.timeline import snapshots
from zmon.schema.names import second_job_id

FIRST, OTHER = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
SECOND = second_job_id(JOB, OTHER)


def launch(launch_id, host, ranks=range(4), age=60.0, make=rank_state, **changes):
    """Return the report of a host with ranks of a launch that began `age` seconds ago."""
    fields = {"host": host, "owner": 1, "launch_id": launch_id, "launcher": f"1@{launch_id}", "start": NOW - age}
    fields |= changes
    return agent_report(*(make(r, run_uid=f"{launch_id}-{host}-{r}", **fields) for r in ranks), host=host)


def jobs(*reports, silent=(), ids=None):
    """Return the hosts of the living ranks by job. `silent` are the last reports of agents that do not answer."""
    names = (ids or SharedIds()).names(reports, silent)
    current = [renamed(report, names) for report in reports]
    last = [renamed(report, names) for report in silent]  # of agents that are silent
    return {
        job.job_id: sorted({rank.host for rank in job.reported_ranks if rank.alive})
        for job in snapshots(current, last, (), NOW)
    }


ENDING = {"last_words": words("signal", "SIGTERM")}
SEPARATE = {
    "the same numbers": [launch(FIRST, "a", age=600.0), launch(OTHER, "b")],
    "other world sizes": [launch(FIRST, "a", age=600.0), launch(OTHER, "b", (5, 6), world_size=8)],
    "other ranks on a shared host": [
        launch(FIRST, "a", age=600.0), launch(OTHER, "a", (2, 3), job_id=SECOND, wanted_job_id=JOB),
        launch(OTHER, "b", (0, 1))],
    "a launch whose only rank has started another one and goes on": [
        launch(FIRST, "a", (0,), age=600.0, world_size=1), launch(OTHER, "b", attempt=1)],
    "a third launch ended before": [
        launch(FIRST, "a", age=600.0), launch("c" * 16, "c", age=900.0, make=dead, gone=800.0), launch(OTHER, "b")],
}  # fmt: skip
TOGETHER = {
    "one launch on two hosts": [launch(FIRST, "a", (0, 1)), launch(FIRST, "b", (2, 3))],
    "nodes that name their meeting place differently": [launch(FIRST, "a", (0, 1)), launch(OTHER, "b", (2, 3))],
    "launches without an id": [launch("", "a", age=600.0), launch("", "b")],
    "a launch that has ended": [launch(FIRST, "a", age=600.0, make=dead, gone=120.0), launch(OTHER, "b")],
    "a launch that lost a rank before": [
        launch(FIRST, "a", (0, 1, 2), age=600.0), launch(FIRST, "c", (3,), age=600.0, make=dead, gone=90.0),
        launch(OTHER, "b")],
    "a launch whose only rank has started the next one and waits": [
        launch(FIRST, "a", (0,), age=600.0, world_size=1, superseded=True), launch(OTHER, "a", attempt=1)],
    "a launch that is being ended": [launch(FIRST, "a", age=600.0, **ENDING), launch(OTHER, "b")],
    "a rank that outlives a restart at another place": [
        launch(FIRST, "a", (0, 1), age=600.0, make=dead, gone=30.0, launcher="7@1"),
        launch(OTHER, "a", (0, 1), age=20.0, launcher="7@1", attempt=1),
        launch(FIRST, "b", (2, 3), age=600.0), launch(OTHER, "c", (2, 3), age=20.0, attempt=1)],
}  # fmt: skip


@pytest.mark.parametrize("reports", SEPARATE.values(), ids=SEPARATE)
def test_second_launch_beside_one_that_lives_is_another_job(reports):
    separated = jobs(*reports)
    assert separated.keys() == {JOB, SECOND}
    assert separated[JOB] == ["a"]
    assert "b" in separated[SECOND]
    assert jobs(*reversed(reports)) == separated


@pytest.mark.parametrize("reports", TOGETHER.values(), ids=TOGETHER)
def test_restarts_and_parts_of_a_launch_are_one_job(reports):
    assert jobs(*reports).keys() == {JOB}


def test_launch_is_not_separated_from_one_whose_agent_is_silent():
    first, second = launch(FIRST, "a", age=600.0), launch(OTHER, "b")
    assert jobs(second, silent=[first]).keys() == {JOB}


def test_second_launch_keeps_its_name():
    ids = SharedIds()
    first = launch(FIRST, "a", age=600.0)
    second = launch(OTHER, "b")
    jobs(first, second, ids=ids)
    ended = replace(first, ranks=tuple(replace(r, alive=False, gone_seconds=1.0) for r in first.ranks))
    assert jobs(ended, second, ids=ids) == {JOB: [], SECOND: ["b"]}
    assert jobs(first, silent=[second], ids=ids) == {JOB: ["a"], SECOND: ["b"]}
    assert jobs(second, ids=ids) == {SECOND: ["b"]}


def test_both_jobs_know_of_each_other():
    reports = [launch(FIRST, "a", age=600.0), launch(OTHER, "b")]
    names = SharedIds().names(reports)
    first, second = snapshots([renamed(report, names) for report in reports], (), (), NOW)
    assert (first.second_jobs, second.second_jobs) == ((SECOND,), ())
    assert all(r.has_second_id and r.wanted_job_id == JOB for r in second.ranks)
