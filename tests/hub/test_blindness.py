"""A hub that sees nobody says so, and takes silence for nothing."""

import asyncio

from tests.build import JOB, rank_state, waiting
from tests.hub.fakes import FakeAgent, frozen, halves, healthy, hub_over, stopped, until


def test_blind_hub_stops_its_heartbeat_and_says_so(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes()
        agent.down = True

        async def blind():
            return (await door.get("/api/v1/jobs"))["blind"]

        assert await until(blind)
        await asyncio.sleep(0.2)
        before = await door.heartbeat()
        await asyncio.sleep(0.5)
        assert await door.heartbeat() == before
        health = await door.get("/healthz", 503)
        assert health["healthy"] is False
        assert "cannot reach" in health["agents"][0]["error"]
        agent.down = False
        await door.passes(1)
        assert not await blind()

    play(scenario, agent)


def test_blind_hub_resolves_nothing(play):
    agent = FakeAgent(*frozen())

    async def scenario(door):
        (found,) = await until(door.findings)
        agent.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [found["id"]]

    play(scenario, agent)


def test_finding_about_a_host_that_is_out_of_sight_does_not_resolve(play):
    """Its agent died with it, perhaps: that the trouble cannot be seen any more is not that it is over."""
    here, there = halves()
    there.ranks = [stopped(2, host="node-b"), waiting(3, 1.0, host="node-b")]

    async def scenario(door):
        (found,) = await until(door.findings)
        there.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [found["id"]]
        there.down, there.ranks = False, [rank_state(2, host="node-b"), rank_state(3, host="node-b")]

        async def resolved():
            return not await door.findings()

        assert await until(resolved)

    play(scenario, here, there)


def test_hub_that_never_reached_an_agent_is_not_healthy(tmp_path):
    async def main():
        agent = FakeAgent()
        async with agent.serve():
            agent.down = True
            async with hub_over(tmp_path, agent) as door:
                await asyncio.sleep(0.3)
                assert (await door.get("/healthz", 503))["healthy"] is False
                assert await door.heartbeat() == []

    asyncio.run(asyncio.wait_for(main(), 20))


def test_host_whose_agent_is_silent_is_a_finding(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.down = True
        door.hub.links[1]._heard -= 11  # as if eleven seconds had passed
        (found,) = await until(door.findings)
        assert (found["cause"], found["hosts"]) == ("agent_unreachable", ["node-b"])
        assert "ranks 2, 3" in found["summary"]

    play(scenario, here, there)


def test_agent_that_hangs_holds_up_no_pass(play):
    here, there = halves()

    async def scenario(door):
        await door.passes()
        there.hangs = True

        async def unreachable():
            return not door.hub.links[1].reachable

        assert await until(unreachable)
        asked = len(there.asked)
        await door.passes(6)
        assert len([path for path in there.asked[asked:] if "snapshot" in path]) < 4
        there.hangs = False

        async def reachable():
            return door.hub.links[1].reachable

        assert await until(reachable)

    play(scenario, here, there)


def test_job_whose_only_agent_is_silent_is_a_finding_while_others_answer(play):
    """Another job's agent still answers, so the hub is not blind: the silence would look like the end of the job."""
    here, there = FakeAgent(*healthy()), FakeAgent(rank_state(0, job_id="other", world_size=1), host="node-b")

    async def scenario(door):
        await door.passes()
        here.down = True
        door.hub.links[0]._heard -= 11  # as if eleven seconds had passed
        assert await until(door.findings, 2.0)
        assert [(f["job_id"], f["cause"]) for f in await door.findings()] == [(JOB, "agent_unreachable")]

    play(scenario, here, there)
