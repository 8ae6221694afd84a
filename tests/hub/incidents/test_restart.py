"""Tests of incidents across a restart of the hub."""

import asyncio
import shutil

from tests.hub.fakes import frozen, healthy, hub_over, poll
from tests.hub.incidents.playing import Agent, incident, resolved, texts_of


def test_restarted_hub_continues_the_capsule(tmp_path):
    async def main():
        agent = Agent(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as door:
                before = await incident(door)
                assert await poll(lambda: _filed(door))
            async with hub_over(tmp_path, agent) as door:
                await door.passes(5)
                assert len((await door.get("/api/v1/incidents"))["incidents"]) == 1
                agent.ranks = healthy()
                assert await poll(lambda: resolved(door), 8.0)

                async def over():
                    capsule = await incident(door)
                    return capsule if capsule["finding"]["resolved"] else None

                after = await poll(over)
                assert texts_of(after)[: len(before["timeline"])] == texts_of(before)
                assert after["collected"] == before["collected"]

    asyncio.run(asyncio.wait_for(main(), 30))


async def _filed(door):
    findings = await door.findings()
    return findings and findings[0]["capsule"]


def test_restarted_hub_closes_the_capsule_of_an_ended_finding(tmp_path):
    async def main():
        agent = Agent(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as door:
                capsule = await incident(door)
                assert await poll(lambda: _filed(door))
            place = tmp_path / "incidents" / capsule["finding"]["id"]
            shutil.copytree(place, tmp_path / "kept")
            agent.ranks = healthy()
            async with hub_over(tmp_path, agent) as door:
                assert await poll(lambda: resolved(door), 8.0)
            shutil.rmtree(place)
            shutil.move(tmp_path / "kept", place)
            async with hub_over(tmp_path, agent) as door:

                async def over():
                    return (await incident(door))["finding"]["resolved"]

                assert await poll(over)

    asyncio.run(asyncio.wait_for(main(), 30))
