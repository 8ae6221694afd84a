"""Tests of a hub whose agents do not answer. It reports that it is blind, and silence resolves no finding."""

import asyncio

import pytest

from tests.build import JOB, rank_state, waiting
from tests.hub.fakes import FakeAgent, frozen, healthy, hub_over, poll, stopped, two_agents


async def test_blind_hub_is_unhealthy_without_a_heartbeat(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes()
    agent.down = True

    async def is_blind():
        return (await hub_client.get("/api/v1/jobs"))["blind"]

    assert await poll(is_blind)
    await asyncio.sleep(0.2)
    before = await hub_client.heartbeat()
    assert [(await hub_client.get("/api/v1/jobs"))["as_of"]] == before
    await asyncio.sleep(0.5)
    assert await hub_client.heartbeat() == before
    health = await hub_client.get("/healthz", 503)
    assert health["healthy"] is False
    assert "cannot reach" in health["agents"][0]["error"]
    agent.down = False
    await hub_client.passes(1)
    assert not await is_blind()


@pytest.mark.usefixtures("resolves_soon")
async def test_blind_hub_resolves_nothing(start_agent_and_hub):
    agent, hub_client = await start_agent_and_hub(*frozen())
    (finding,) = await poll(hub_client.findings)
    agent.down = True
    await asyncio.sleep(0.8)
    assert [f["id"] for f in await hub_client.findings()] == [finding["id"]]


@pytest.mark.usefixtures("resolves_soon")
async def test_finding_about_an_unwatched_host_does_not_resolve(start_hub):
    """The agent may have died with its host. Trouble that cannot be observed any more may still go on."""
    node_a, node_b = two_agents()
    node_b.ranks = [stopped(2, host="node-b"), waiting(3, 1.0, host="node-b")]
    hub_client = await start_hub(node_a, node_b)
    (finding,) = await poll(hub_client.findings)
    node_b.down = True
    await asyncio.sleep(0.8)
    assert [f["id"] for f in await hub_client.findings()] == [finding["id"]]
    node_b.down, node_b.ranks = False, [rank_state(2, host="node-b"), rank_state(3, host="node-b")]
    assert await poll(hub_client.no_findings)


async def test_hub_that_never_reached_an_agent_is_not_healthy(tmp_path):
    agent = FakeAgent()
    async with agent.serve():
        agent.down = True
        async with hub_over(tmp_path, agent) as hub_client:
            await asyncio.sleep(0.3)
            assert (await hub_client.get("/healthz", 503))["healthy"] is False
            assert await hub_client.heartbeat() == []


async def test_host_without_an_answering_agent_is_a_finding(start_hub):
    node_a, node_b = two_agents()
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    node_b.down = True
    hub_client.hub.links[1]._answered_at -= 11  # as if eleven seconds had passed
    (finding,) = await poll(hub_client.findings)
    assert (finding["cause"], finding["hosts"]) == ("agent_unreachable", ["node-b"])
    assert "ranks 2, 3" in finding["summary"]


async def test_agent_that_hangs_delays_no_pass(start_hub):
    node_a, node_b = two_agents()
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    node_b.hangs = True
    assert await poll(lambda: not hub_client.hub.links[1].reachable)
    before = len(node_b.requests)
    await hub_client.passes(6)
    assert len([path for path in node_b.requests[before:] if "snapshot" in path]) < 4
    node_b.hangs = False
    assert await poll(lambda: hub_client.hub.links[1].reachable)


async def test_hub_knows_that_an_agent_restarts_if_it_said_so(start_hub):
    """The detector `coverage` then reports nothing (tests/detectors/test_coverage.py)."""
    node_a, node_b = two_agents()
    node_b.leaving = True
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    await asyncio.sleep(0.5)  # longer than a long poll of these hubs
    node_b.down = True

    def restarting():
        return [link.url for link in hub_client.hub.links if link.status().is_restarting]

    assert await poll(restarting) == [node_b.url]


async def test_job_without_an_answering_agent_is_a_finding(start_hub):
    """The agent of another job still answers, so the hub is not blind and must not take silence for the job's end."""
    node_a, node_b = FakeAgent(*healthy()), FakeAgent(rank_state(0, job_id="other", world_size=1), host="node-b")
    hub_client = await start_hub(node_a, node_b)
    await hub_client.passes()
    node_a.down = True
    hub_client.hub.links[0]._answered_at -= 11  # as if eleven seconds had passed
    assert await poll(hub_client.findings, 2.0)
    assert [(f["job_id"], f["cause"]) for f in await hub_client.findings()] == [(JOB, "agent_unreachable")]
