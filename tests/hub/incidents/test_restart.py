"""Tests of incidents across a restart of the hub."""

import asyncio
import shutil

from tests.hub.fakes import frozen, healthy, hub_over, poll
from tests.hub.incidents.fake_agent import AgentWithSteps, incident, resolved, texts_of


def test_restarted_hub_continues_the_capsule(tmp_path):
    async def main():
        agent = AgentWithSteps(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as hub_client:
                before = await incident(hub_client)
                assert await poll(lambda: _filed(hub_client))
            async with hub_over(tmp_path, agent) as hub_client:
                await hub_client.passes(5)
                assert len((await hub_client.get("/api/v1/incidents"))["incidents"]) == 1
                agent.ranks = healthy()
                assert await poll(lambda: resolved(hub_client), 8.0)

                async def over():
                    capsule = await incident(hub_client)
                    return capsule if capsule["finding"]["resolved"] else None

                after = await poll(over)
                assert texts_of(after)[: len(before["timeline"])] == texts_of(before)
                assert after["collected"] == before["collected"]

    asyncio.run(asyncio.wait_for(main(), 30))


async def _filed(hub_client):
    findings = await hub_client.findings()
    return findings and findings[0]["capsule"]


def test_restarted_hub_closes_the_capsule_of_an_ended_finding(tmp_path):
    async def main():
        agent = AgentWithSteps(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as hub_client:
                capsule = await incident(hub_client)
                assert await poll(lambda: _filed(hub_client))
            place = tmp_path / "incidents" / capsule["finding"]["id"]
            shutil.copytree(place, tmp_path / "kept")
            agent.ranks = healthy()
            async with hub_over(tmp_path, agent) as hub_client:
                assert await poll(lambda: resolved(hub_client), 8.0)
            shutil.rmtree(place)
            shutil.move(tmp_path / "kept", place)
            async with hub_over(tmp_path, agent) as hub_client:

                async def over():
                    return (await incident(hub_client))["finding"]["resolved"]

                assert await poll(over)

    asyncio.run(asyncio.wait_for(main(), 30))
