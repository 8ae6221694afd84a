"""Tests of the detector `coverage`.

Ranks of a silent agent and ranks that no agent has reported are a finding. A short restart of an agent is not.
"""

from dataclasses import replace

import pytest

from tests.build import JOB, NOW, agent_status, dead, rank_state, snapshot
from zmon.detectors.coverage import Coverage

COVERAGE = Coverage()
NODE_A = agent_status("node-a")


def detect(*ranks, **changes):
    return next(iter(COVERAGE.detect(snapshot(*ranks, **changes))), None)


def watched(**changes):
    """Return two ranks of a job that has been training for a minute."""
    return [rank_state(rank, activity_seconds=60.0, **changes) for rank in (0, 1)]


def silent_agent(seconds, **changes):
    """Return the changes for two more ranks, whose agent has been silent for this time."""
    ranks = [rank_state(rank, host="node-b", activity_seconds=60.0, **changes) for rank in (2, 3)]
    return {"unwatched": ranks, "agents": [NODE_A, agent_status("node-b", seconds)]}


def test_coverage_reports_nothing_while_all_ranks_are_watched():
    assert detect(*map(rank_state, range(4))) is None


def test_silent_agent_is_named_with_its_unwatched_ranks():
    finding = detect(*watched(), **silent_agent(12.0))
    assert (finding.job_id, finding.detector, finding.cause) == (JOB, "coverage", "agent_unreachable")
    assert (finding.severity, finding.ranks, finding.hosts) == ("warning", (), ("node-b",))
    assert "node-b has not answered for 12 s (threshold 10 s)" in finding.summary
    assert "ranks 2, 3" in finding.summary
    assert "Connection refused" in finding.summary
    assert finding.onset == NOW - 12.0
    assert finding.runbook == "docs/runbooks.md#agent_unreachable"


def test_next_step_of_a_silent_agent_is_to_look_at_it():
    changes = silent_agent(12.0)
    (_, second) = changes["agents"]
    assert f"curl {second.url}/healthz" in detect(*watched(), **changes).detail


def test_silent_agent_of_a_whole_job_is_named():
    ranks = [rank_state(rank) for rank in range(4)]
    finding = detect(unwatched=ranks, agents=[agent_status("node-a", 12.0), agent_status("node-b")])
    assert (finding.cause, finding.hosts) == ("agent_unreachable", ("node-a",))


@pytest.mark.parametrize("seconds", [0.5, 3.0, 9.9])
def test_coverage_reports_nothing_during_a_three_second_agent_restart(seconds):
    """The job has been training for a minute, and the ranks of that host are unwatched meanwhile."""
    assert detect(*watched(), **silent_agent(seconds)) is None


def test_coverage_reports_nothing_while_an_agent_that_said_that_it_ends_is_away():
    changes = silent_agent(60.0)
    changes["agents"][1] = replace(changes["agents"][1], is_restarting=True)
    assert detect(*watched(), **changes) is None


def test_coverage_ignores_agents_that_have_no_rank_of_this_job():
    assert detect(*map(rank_state, range(4)), agents=[NODE_A, agent_status("node-z", 500.0)]) is None


def test_coverage_ignores_an_agent_that_never_answered():
    """The ranks of such an agent are unknown. If ranks of this job are missing, the other cause reports them."""
    never = replace(agent_status("node-q", 500.0), host=None)
    assert detect(*map(rank_state, range(4)), agents=[NODE_A, never]) is None


def test_ranks_that_were_never_reported_are_named():
    finding = detect(*watched())
    assert (finding.cause, finding.severity, finding.ranks) == ("ranks_missing", "warning", ())
    assert "ranks 2, 3 of 4" in finding.summary
    assert "60 s (threshold 20 s)" in finding.summary
    assert finding.evidence.missing == (2, 3)


def test_coverage_reports_nothing_while_ranks_of_a_new_launch_appear():
    assert detect(rank_state(0, activity="init", activity_seconds=300.0)) is None
    assert detect(rank_state(0, activity_seconds=5.0)) is None


def test_coverage_ignores_missing_ranks_of_an_ended_job():
    assert detect(dead(0), dead(1)) is None


def test_summary_counts_missing_ranks_beyond_eight():
    finding = detect(rank_state(0, world_size=100, activity_seconds=60.0))
    assert "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 91 more of 100" in finding.summary
    assert len(finding.summary) < 300


@pytest.mark.parametrize("changes", [{}, silent_agent(12.0)], ids=["missing", "silent"])
def test_finding_keeps_its_id_while_the_job_trains_on(changes):
    """The job moves, so no other detector would notice."""
    first = detect(*watched(step=100), **changes)
    assert detect(*watched(step=350), **changes, time=NOW + 5).id == first.id


def test_job_id_of_another_user_is_a_warning_with_the_name_and_the_user():
    ranks = [rank_state(rank, wanted_job_id="train", owner=1234) for rank in range(4)]
    finding = detect(*ranks)
    assert (finding.cause, finding.severity, finding.ranks) == ("job_id_shared", "warning", ())
    assert "uid 1234 started ranks of a job train on node-a, where another user has" in finding.summary
    assert f"watched as {JOB}" in finding.summary
    assert detect(*[replace(r, step=r.step + 50) for r in ranks], time=NOW + 5).id == finding.id


def test_coverage_reports_nothing_about_a_job_that_has_its_own_id():
    assert detect(*[rank_state(rank, owner=1234) for rank in range(4)]) is None


def test_shared_job_id_explains_missing_ranks():
    """The ranks of the job on other hosts, where no other user has a job with this id, keep it."""
    assert detect(*watched(wanted_job_id="train", owner=1234)).cause == "job_id_shared"


def test_coverage_ignores_a_shared_id_once_the_job_has_ended():
    assert detect(*[dead(rank, wanted_job_id="train", owner=1234) for rank in range(4)]) is None
