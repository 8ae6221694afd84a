"""Tests of incidents across a restart of the hub."""

import shutil

import pytest

from tests.hub.fakes import frozen, healthy, hub_over, poll
from tests.hub.incidents.fake_agent import AgentWithSteps, incident, resolved_incident, texts_of


async def has_capsule(hub_client):
    """Return True if the newest active finding has its capsule."""
    findings = await hub_client.findings()
    return bool(findings) and findings[0]["capsule"] is not None


@pytest.mark.usefixtures("resolves_soon")
async def test_restarted_hub_continues_the_capsule(tmp_path):
    agent = AgentWithSteps(*frozen())
    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            before = await incident(hub_client)
            assert await poll(lambda: has_capsule(hub_client))
        async with hub_over(tmp_path, agent) as hub_client:
            await hub_client.passes(5)
            assert len((await hub_client.get("/api/v1/incidents"))["incidents"]) == 1
            agent.ranks = healthy()
            assert await poll(hub_client.no_findings, 8.0)
            after = await resolved_incident(hub_client)
            assert texts_of(after)[: len(before["timeline"])] == texts_of(before)
            assert (after["collected"], after["ranks"]) == (before["collected"], before["ranks"])
            assert texts_of(after)[-1].startswith("resolved, ")


@pytest.mark.usefixtures("resolves_soon")
async def test_restarted_hub_closes_the_capsule_of_an_ended_finding(tmp_path):
    """If a hub ends between the end of a finding and the write of its capsule, the capsule says that it is active."""
    agent = AgentWithSteps(*frozen())
    async with agent.serve():
        async with hub_over(tmp_path, agent) as hub_client:
            capsule = await incident(hub_client)
            assert await poll(lambda: has_capsule(hub_client))
        folder = tmp_path / "incidents" / capsule["finding"]["id"]
        shutil.copytree(folder, tmp_path / "active capsule")
        agent.ranks = healthy()
        async with hub_over(tmp_path, agent) as hub_client:
            assert await poll(hub_client.no_findings, 8.0)
        shutil.rmtree(folder)
        shutil.move(tmp_path / "active capsule", folder)
        async with hub_over(tmp_path, agent) as hub_client:
            assert (await resolved_incident(hub_client))["finding"]["resolved"]
