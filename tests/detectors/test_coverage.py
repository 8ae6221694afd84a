"""Tests of the detector `coverage`.

Ranks of a silent agent and ranks that no agent has reported are a finding. A short restart of an agent is not.
"""

from dataclasses import replace

import pytest

from tests.build import NOW, agent_status, dead, rank_state, snapshot
from zmon.detectors.coverage import Coverage

NODE_A = agent_status("node-a")
ALL = tuple(map(rank_state, range(4)))
NEVER = replace(agent_status("node-q", 500.0), host=None)
INIT = {"activity": "init"}
SHARED = {"wanted_job_id": "train", "owner": 1234}


def detect(ranks=(), **changes):
    """Return the finding about a job of these ranks, or None."""
    return next(iter(Coverage().detect(snapshot(*ranks, **changes))), None)


def watched(**changes):
    """Return two ranks of a job that has been training for a minute."""
    return [rank_state(rank, activity_seconds=60.0, **changes) for rank in (0, 1)]


def starting(seconds):
    """Return two ranks of a job that have initialized for this time."""
    return [rank_state(rank, **INIT, activity_seconds=seconds) for rank in (0, 1)]


def silent_agent(seconds, **changes):
    """Return the changes for two more ranks, whose agent has been silent for this time."""
    ranks = [rank_state(rank, host="node-b", activity_seconds=60.0) for rank in (2, 3)]
    return {"unwatched": ranks, "agents": [NODE_A, replace(agent_status("node-b", seconds), **changes)]}


LOUD = {  # ranks, what else is in the snapshot, the cause, its hosts, and parts of the text
    "a silent agent": (watched(), silent_agent(12.0), "agent_unreachable", ("node-b",), (
        "node-b has not answered for 12 s (threshold 10 s)", "ranks 2, 3", "Connection refused",
        "curl http://node-b:9780/healthz")),
    "a silent agent of a whole job": (
        (), {"unwatched": ALL, "agents": [agent_status("node-a", 12.0), agent_status("node-b")]},
        "agent_unreachable", ("node-a",), ()),
    "ranks that were never reported": (watched(), {}, "ranks_missing", (), (
        "ranks 2, 3 of 4", "60 s (threshold 20 s)", "missing=(2, 3)")),
    "a hundred ranks that were never reported": (
        [rank_state(0, world_size=100, activity_seconds=60.0)], {}, "ranks_missing", (),
        ("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 more of 100",)),
    "ranks that never started": (starting(300.0), {}, "ranks_missing", (), (
        "2, 3 of 4, although the job has initialized for 300 s", "the others may wait", "Did the launcher start")),
    "a job id of another user": ([rank_state(rank, **SHARED) for rank in range(4)], {}, "job_id_shared", ("node-a",), (
        "uid 1234 started ranks of a job train on node-a, where another user has", "watched as job")),
    "a job id of another user on many hosts": (
        [rank_state(rank, host=f"node-{rank}", world_size=5, **SHARED) for rank in range(5)],
        {}, "job_id_shared", tuple(f"node-{number}" for number in range(5)),
        ("on node-0, node-1, node-2, node-3, where another user has",)),
    "a shared job id, which explains missing ranks": (watched(**SHARED), {}, "job_id_shared", ("node-a",), ()),
}  # fmt: skip
QUIET = {
    "all ranks are watched": (ALL, {}),
    **{f"an agent restarts for {seconds} s": (watched(), silent_agent(seconds)) for seconds in (0.5, 3.0, 9.9)},
    "an agent that announced its end is away": (watched(), silent_agent(60.0, is_restarting=True)),
    "an agent has no rank of this job": (ALL, {"agents": [NODE_A, agent_status("node-z", 500.0)]}),
    "an agent never answered, so its ranks are unknown": (ALL, {"agents": [NODE_A, NEVER]}),
    "ranks of a new launch are in init": (starting(299.0), {}),
    "one rank of a new launch still compiles": (
        [*starting(400.0), rank_state(2, activity="compile", activity_seconds=400.0)],
        {},
    ),
    "all ranks are in init": ([rank_state(rank, **INIT, activity_seconds=900.0) for rank in range(4)], {}),
    "ranks of a new launch appear": ([rank_state(0, activity_seconds=5.0)], {}),
    "ranks of an ended job are missing": ((dead(0), dead(1)), {}),
    "a job has the id that it wanted": ([rank_state(rank, owner=1234) for rank in range(4)], {}),
    "a job with a shared id has ended": ([dead(rank, **SHARED) for rank in range(4)], {}),
}

SECOND = {"job_id": "train.00112233", "wanted_job_id": "train", "launch_id": "0011223344556677"}


def test_two_launches_with_one_id_are_no_warning():
    first = replace(snapshot(*ALL), second_jobs=("train.00112233",))
    second = snapshot(*(rank_state(rank, **SECOND) for rank in range(4)))
    findings = [finding for job in (first, second) for finding in Coverage().detect(job)]
    assert [(f.cause, f.severity) for f in findings] == [("job_id_shared", "info")] * 2
    assert "another launch with this job id lives, and is watched as train.00112233" in findings[0].summary
    assert "another launch with the job id train lives: this one is watched as train.00112233" in findings[1].summary


@pytest.mark.parametrize(("ranks", "changes", "cause", "hosts", "texts"), LOUD.values(), ids=LOUD)
def test_unwatched_ranks_are_a_warning(ranks, changes, cause, hosts, texts):
    finding = detect(ranks, **changes)
    assert (finding.detector, finding.cause, finding.severity, finding.ranks) == ("coverage", cause, "warning", ())
    assert (finding.hosts, finding.confidence) == (hosts, 1.0)
    text = f"{finding.summary} {finding.detail} {finding.evidence}"
    assert not [part for part in texts if part not in text]
    assert len(finding.summary) < 300
    assert finding.runbook == f"docs/runbooks.md#{cause}"


@pytest.mark.parametrize(("ranks", "changes"), QUIET.values(), ids=QUIET)
def test_coverage_is_quiet_unless_ranks_stay_unwatched(ranks, changes):
    assert detect(ranks, **changes) is None


def test_onset_is_the_last_answer_of_the_agent():
    assert detect(watched(), **silent_agent(12.0)).onset == NOW - 12.0


@pytest.mark.parametrize("row", ["a silent agent", "ranks that were never reported", "a job id of another user"])
def test_finding_keeps_its_id_while_the_job_trains_on(row):
    """The job moves, so no other detector would notice."""
    ranks, changes, *_ = LOUD[row]
    later = [replace(state, step=state.step + 250) for state in ranks]
    assert detect(later, **changes, time=NOW + 5).id == detect(ranks, **changes).id
