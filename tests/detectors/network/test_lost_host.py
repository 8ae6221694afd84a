"""Tests of a host whose agent is silent: it is lost only if the others wait for its ranks."""

from dataclasses import replace

import pytest

from tests.build import agent_status, disconnected, rank_state, snapshot, waiting
from tests.detectors.stalls import detect, inside, outside
from zmon.detectors.stall import Stall
from zmon.schema.host import HostSample, HostWindow, TcpSample

AWAY = [waiting(rank, host="node-b", in_flight=None) for rank in (2, 3)]


def agents(silent):
    return [agent_status("node-a"), agent_status("node-b", silent)]


def test_silent_host_that_the_others_wait_for_is_lost():
    finding = detect(waiting(0), waiting(1), unwatched=AWAY, agents=agents(3.0))
    assert (finding.cause, finding.ranks, finding.hosts) == ("host_lost", (2, 3), ("node-b", "node-b"))
    assert "3.0 s" in finding.summary


def test_host_that_refuses_the_connection_of_the_hub_is_not_lost():
    """Only its agent is gone, for example because it restarts."""
    up = [agent_status("node-a"), replace(agent_status("node-b", 30.0), host_is_up=True)]
    finding = detect(waiting(0), waiting(1), unwatched=AWAY, agents=up)
    assert finding is None or finding.cause == "unknown"


def test_host_is_not_lost_if_its_agent_just_fell_silent():
    """An agent restarts within two seconds, so its ranks are known again in a moment."""
    assert detect(waiting(0), waiting(1), unwatched=AWAY, agents=agents(1.0)) is None


def test_host_is_lost_if_contact_ends_in_the_middle_of_a_step():
    """The last answer of the agent and the last step are at most a second apart, and all other ranks wait."""
    for silent, step in ((5.0, 5.2), (5.0, 4.1), (600.0, 599.0)):
        alive = [inside(0, "all_to_all", seconds=step), inside(1, "all_to_all", seconds=step)]
        assert detect(*alive, unwatched=AWAY, agents=agents(silent)).cause == "host_lost"


def in_doubt(answers):
    """Return the host whose agent asked the others for an answer, with those that it got."""
    connections = TcpSample(0, (), ("10.0.0.1",), ("eth1",), answers=answers)
    return HostWindow("node-a", 60.0, HostSample(), HostSample(tcp=connections))


def diagnose_silence(answers, addresses):
    unwatched = [*AWAY, *(waiting(rank, host="node-c", in_flight=None) for rank in (4, 5))]
    silent = [*agents(3.0), agent_status("node-c", 3.0)]
    ranks = [waiting(0, world_size=6), waiting(1, world_size=6)]
    job = snapshot(*ranks, unwatched=unwatched, agents=silent, hardware=[in_doubt(answers)])
    return next(iter(Stall().detect(replace(job, addresses=addresses))))


ADDRESSES = {"node-a": ("10.0.0.1",), "node-b": ("10.0.0.2",), "node-c": ("10.0.0.3",)}


def test_host_that_still_answers_the_others_is_not_lost_although_its_agent_is_silent():
    """The agent of node-c restarts in the same moment in which node-b is lost."""
    finding = diagnose_silence({"10.0.0.2": False, "10.0.0.3": True}, ADDRESSES)
    assert (finding.cause, finding.ranks, set(finding.hosts)) == ("host_lost", (2, 3), {"node-b"})


def test_no_host_is_lost_if_all_silent_ones_still_answer_the_others():
    finding = diagnose_silence({"10.0.0.2": True, "10.0.0.3": True}, ADDRESSES)
    assert (finding.cause, finding.ranks) == ("unknown", ())


@pytest.mark.parametrize(
    ("answers", "addresses"),
    [
        (None, ADDRESSES),
        ({"10.0.0.3": True}, {}),
        ({"10.0.0.3": True}, {"node-b": ("10.0.0.3",), "node-c": ("10.0.0.3",)}),
        ({"10.0.0.2": False, "10.0.0.3": False}, ADDRESSES),
    ],
    ids=["nobody asked", "address not known", "address of two hosts", "both silent"],
)
def test_all_silent_hosts_are_lost_if_no_answer_shows_that_one_is_up(answers, addresses):
    finding = diagnose_silence(answers, addresses)
    assert (finding.cause, finding.ranks) == ("host_lost", (2, 3, 4, 5))


def test_silent_agent_is_not_the_culprit_if_a_watched_rank_is_behind():
    """Rank 1 hangs, and the agent of the others' host happens to be dead."""
    finding = detect(waiting(0), outside(1), unwatched=AWAY, agents=agents(5.0))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_silent_agent_is_not_the_culprit_if_its_ranks_trained_on():
    """The agent died an hour ago; the job has trained since then, until seven seconds ago."""
    finding = detect(waiting(0, 7.0), waiting(1, 7.0), unwatched=AWAY, agents=agents(3600.0))
    assert (finding.cause, finding.ranks) == ("unknown", ())


def test_host_is_lost_although_the_others_still_finished_a_long_step():
    long = {"lease_seconds": 60.0, "overdue_seconds": 40.0}
    alive = [waiting(rank, 100.0, **long) for rank in (0, 1)]
    assert detect(*alive, unwatched=AWAY, agents=agents(120.0)).cause == "host_lost"


def test_silent_agent_of_a_job_that_moves_is_no_lost_host():
    assert detect(rank_state(0), rank_state(1), unwatched=AWAY, agents=agents(60.0)) is None


@pytest.mark.parametrize(
    ("counts", "phase", "cause"),
    [((300, 300), "backward", "host_lost"), ((300, 301), "backward", "unknown"), ((300, 300), "data", "unknown")],
)
def test_host_is_lost_on_gpus_only_if_all_other_ranks_have_issued_as_many_collectives(counts, phase, cause):
    """A rank that hangs is behind the others, and all ranks may read from the same storage."""
    ranks = [
        outside(rank, phase, sequences={"0": count}, device=f"GPU-{rank}")
        for rank, count in zip((0, 1), counts, strict=True)
    ]
    assert detect(*ranks, unwatched=AWAY, agents=agents(5.0)).cause == cause


def test_no_rank_is_named_while_the_agent_of_a_rank_is_silent():
    """All watched ranks wait for data, and the unwatched one may be the reason."""
    reading = [outside(rank, "data") for rank in (0, 1)]
    assert detect(*reading, unwatched=AWAY, agents=agents(5.0)).cause == "unknown"


# -- all watched ranks have died ---------------------------------------------------------------------------


def diagnose_deaths(answers, silent=(8.0, 8.0), step_seconds=7.0):
    """Return the finding after all ranks of node-a died of broken connections; node-b and node-c are silent."""
    unwatched = [*AWAY, *(waiting(rank, host="node-c", in_flight=None) for rank in (4, 5))]
    agents_ = [agent_status("node-a"), agent_status("node-b", silent[0]), agent_status("node-c", silent[1])]
    ranks = [disconnected(rank, 6.0, world_size=6, step_seconds=step_seconds) for rank in (0, 1)]
    job = snapshot(*ranks, unwatched=unwatched, agents=agents_, hardware=[in_doubt(answers)])
    return next(iter(Stall().detect(replace(job, addresses=ADDRESSES))))


def test_host_that_still_answers_is_not_named_after_the_others_have_died():
    finding = diagnose_deaths({"10.0.0.2": False, "10.0.0.3": True})
    assert (finding.cause, finding.ranks, set(finding.hosts)) == ("host_lost", (2, 3), {"node-b"})
    assert "node-c" not in finding.summary


def test_host_whose_agent_died_long_before_the_last_step_is_not_named_after_the_others_have_died():
    finding = diagnose_deaths(None, silent=(8.0, 3600.0))
    assert (finding.cause, finding.ranks, set(finding.hosts)) == ("host_lost", (2, 3), {"node-b"})


@pytest.mark.parametrize(
    ("answers", "silent"),
    [({"10.0.0.2": True, "10.0.0.3": True}, (8.0, 8.0)), (None, (3600.0, 3600.0))],
    ids=["all answer", "all agents died long ago"],
)
def test_dead_job_is_reported_without_a_name_if_no_silent_host_can_be_lost(answers, silent):
    finding = diagnose_deaths(answers, silent)
    assert (finding.cause, finding.severity, finding.ranks, finding.hosts) == ("unknown", "critical", (), ())
    assert "agents of node-b, node-c do not answer" in finding.summary


def test_all_silent_hosts_are_named_after_the_others_have_died_if_nothing_shows_that_one_is_up():
    assert diagnose_deaths(None).ranks == (2, 3, 4, 5)
