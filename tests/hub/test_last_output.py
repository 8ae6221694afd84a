"""Tests of the last lines of a launch that is over: the hub asks the ranks that ended first, once."""

from dataclasses import replace

from tests.build import finished, snapshot
from tests.hub.fakes import FakeAgent, failed, healthy, poll
from zmon.hub import last_output
from zmon.hub.last_output import _first_to_end

FAILED = failed()


def lines(hub_client):
    """Return the last lines of the only job that the hub knows."""
    return next((hub_client.hub._last_output.lines(job) for job in hub_client.hub.snapshots), ())


async def test_ranks_that_ended_first_are_asked_once(start_hub):
    agent = FakeAgent(*FAILED, stderr_tail="first line\nbad batch 17")
    hub_client = await start_hub(agent)
    assert await poll(lambda: lines(hub_client)) == ("first line", "bad batch 17")
    await hub_client.passes(5)
    ranks = agent.looks()
    assert len(ranks) == len(set(ranks)) == 2
    assert 2 in ranks


async def test_no_line_is_known_while_the_launch_lives(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(3)
    assert lines(hub_client) == ()
    assert agent.looks() == []


def test_ranks_that_finished_are_not_asked():
    assert _first_to_end(snapshot(*(finished(rank, 9.0) for rank in range(4)))) == []


async def test_launches_that_are_still_reported_are_asked_once_however_many_they_are(start_agent_and_hub, monkeypatch):
    monkeypatch.setattr(last_output, "_MAX_LAUNCHES", 1)
    ranks = [replace(rank, job_id=f"job-{n}", run_uid=f"{n} {rank.rank}") for n in range(3) for rank in FAILED]
    agent, hub_client = await start_agent_and_hub(*ranks)
    assert await poll(lambda: len(agent.looks()) >= 6)  # two ranks of each launch
    await hub_client.passes(5)
    assert len(agent.looks()) == 6
