"""Tests of restarts: a restart of the hub or of an agent loses nothing and pages nobody."""

import asyncio

from tests.hub.fakes import FakeAgent, frozen, halves, healthy, hub_over, poll


def test_restart_of_the_hub_keeps_the_finding_with_its_id(tmp_path):
    async def main():
        agent = FakeAgent(*frozen())
        async with agent.serve():
            async with hub_over(tmp_path, agent) as door:
                (before,) = await poll(door.findings)
            async with hub_over(tmp_path, agent) as door:
                assert [f["id"] for f in await door.findings()] == [before["id"]]  # before its first pass
                await door.passes(5)
                (after,) = await door.findings("")
                assert (after["id"], after["onset"]) == (before["id"], before["onset"])
                assert len(await door.metric("zmon_finding{")) == 1

    asyncio.run(asyncio.wait_for(main(), 20))


def test_hub_is_quiet_while_its_only_agent_restarts(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes()
        agent.down = True
        await asyncio.sleep(0.7)
        agent.down = False
        await door.passes()
        assert await door.findings("") == []

    play(scenario, agent)


def test_hub_is_quiet_while_one_of_its_agents_restarts(play):
    node_a, node_b = halves()

    async def scenario(door):
        await door.passes()
        node_b.down = True
        await door.passes(5)
        node_b.down = False
        await door.passes()
        assert await door.findings("") == []

    play(scenario, node_a, node_b)
