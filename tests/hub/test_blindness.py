"""Tests of a blind hub: it reports that it is blind, and draws no conclusion from silence."""

import asyncio

from tests.build import JOB, rank_state, waiting
from tests.hub.fakes import FakeAgent, frozen, halves, healthy, hub_over, poll, stopped


def test_blind_hub_stops_its_heartbeat_and_reports_it(play):
    agent = FakeAgent(*healthy())

    async def scenario(door):
        await door.passes()
        agent.down = True

        async def blind():
            return (await door.get("/api/v1/jobs"))["blind"]

        assert await poll(blind)
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
        (finding,) = await poll(door.findings)
        agent.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [finding["id"]]

    play(scenario, agent)


def test_finding_about_an_unwatched_host_does_not_resolve(play):
    """The agent may have died with its host. Trouble that cannot be observed any more may still go on."""
    node_a, node_b = halves()
    node_b.ranks = [stopped(2, host="node-b"), waiting(3, 1.0, host="node-b")]

    async def scenario(door):
        (finding,) = await poll(door.findings)
        node_b.down = True
        await asyncio.sleep(2.5)
        assert [f["id"] for f in await door.findings()] == [finding["id"]]
        node_b.down, node_b.ranks = False, [rank_state(2, host="node-b"), rank_state(3, host="node-b")]

        async def resolved():
            return not await door.findings()

        assert await poll(resolved)

    play(scenario, node_a, node_b)


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


def test_host_without_an_answering_agent_is_a_finding(play):
    node_a, node_b = halves()

    async def scenario(door):
        await door.passes()
        node_b.down = True
        door.hub.links[1]._answered_at -= 11  # as if eleven seconds had passed
        (finding,) = await poll(door.findings)
        assert (finding["cause"], finding["hosts"]) == ("agent_unreachable", ["node-b"])
        assert "ranks 2, 3" in finding["summary"]

    play(scenario, node_a, node_b)


def test_agent_that_hangs_delays_no_pass(play):
    node_a, node_b = halves()

    async def scenario(door):
        await door.passes()
        node_b.hangs = True

        async def unreachable():
            return not door.hub.links[1].reachable

        assert await poll(unreachable)
        before = len(node_b.requests)
        await door.passes(6)
        assert len([path for path in node_b.requests[before:] if "snapshot" in path]) < 4
        node_b.hangs = False

        async def reachable():
            return door.hub.links[1].reachable

        assert await poll(reachable)

    play(scenario, node_a, node_b)


def test_job_without_an_answering_agent_is_a_finding(play):
    """The agent of another job still answers, so the hub is not blind and must not take silence for the job's end."""
    node_a, node_b = FakeAgent(*healthy()), FakeAgent(rank_state(0, job_id="other", world_size=1), host="node-b")

    async def scenario(door):
        await door.passes()
        node_a.down = True
        door.hub.links[0]._answered_at -= 11  # as if eleven seconds had passed
        assert await poll(door.findings, 2.0)
        assert [(f["job_id"], f["cause"]) for f in await door.findings()] == [(JOB, "agent_unreachable")]

    play(scenario, node_a, node_b)
