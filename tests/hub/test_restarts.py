"""Tests of restarts. Findings stay open when the hub restarts. No finding opens when an agent restarts."""

import asyncio

import pytest

from tests.build import rank_state
from tests.hub.fakes import FakeAgent, frozen, healthy, hub_over, poll, two_agents
from zmon.hub.agent_link import FORGET_SECONDS
from zmon.hub.discovery.file_sd import FileTargets


async def test_restart_of_the_hub_keeps_the_finding_with_its_id(tmp_path):
    agent = FakeAgent(*frozen())
    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            (before,) = await poll(hub_client.findings)
        async with hub_over(tmp_path, agent) as hub_client:
            assert [f["id"] for f in await hub_client.findings()] == [before["id"]]  # before its first pass
            await hub_client.passes(5)
            (after,) = await hub_client.findings("")
            assert (after["id"], after["onset"]) == (before["id"], before["onset"])
            assert len(await hub_client.metric("zmon_finding{")) == 1


@pytest.mark.usefixtures("resolves_soon")
async def test_restarted_hub_resolves_nothing_for_an_hour_before_every_source_has_named_its_agents(tmp_path):
    """The agents that it does not know yet may have the job."""
    agent, other = FakeAgent(*frozen()), FakeAgent(rank_state(0, job_id="other", world_size=1))
    async with agent.serve(), other.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            assert await poll(hub_client.findings)
        source = FileTargets(str(tmp_path / "agents.json"), "http")
        async with hub_over(tmp_path, other, sources=(source,)) as hub_client:
            await hub_client.passes(10)
            assert [f["cause"] for f in await hub_client.findings()] == ["rank_frozen"]
            hub_client.hub._started_at -= FORGET_SECONDS
            assert await poll(hub_client.no_findings)


@pytest.mark.usefixtures("resolves_soon")
@pytest.mark.parametrize("had_job", [True, False], ids=["may have the job", "never had the job"])
async def test_restarted_hub_waits_only_for_agents_that_may_have_the_job(tmp_path, monkeypatch, had_job):
    monkeypatch.setattr("zmon.hub.job_agents.SAVE_SECONDS", 0.0)
    agent, dead = FakeAgent(*frozen()), FakeAgent(host="node-b")
    if had_job:
        agent.ranks, dead.ranks = agent.ranks[:2], agent.ranks[2:]
    async with agent.serve(), dead.serve():
        async with hub_over(tmp_path, agent, dead) as hub_client:
            assert await poll(hub_client.findings)
            await hub_client.passes(2)
        agent.ranks, dead.down = [rank_state(0, job_id="other", world_size=1)], True
        async with hub_over(tmp_path, agent, dead) as hub_client:
            if had_job:
                await hub_client.passes(10)
                assert [finding["job_id"] for finding in await hub_client.findings()] == ["job"]
            else:
                assert await poll(hub_client.no_findings)


@pytest.mark.parametrize("agents", [[FakeAgent(*healthy())], two_agents()], ids=["its only agent", "one of two"])
async def test_hub_is_quiet_while_an_agent_restarts(start_hub, agents):
    hub_client = await start_hub(*agents)
    await hub_client.passes()
    agents[-1].down = True
    await asyncio.sleep(0.7)
    agents[-1].down = False
    await hub_client.passes()
    assert await hub_client.findings("") == []
