"""Tests of collectors: a hub learns through them what it would learn itself, and a dead one is never good health."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import msgspec
from aiohttp.test_utils import TestServer

from tests.build import JOB, dead, rank_state, step_record, waiting
from tests.hub.fakes import FakeAgent, contexts, hub_over, poll, stopped, two_agents
from zmon.hub import HubConfig
from zmon.hub.agent_link import FORGET_SECONDS
from zmon.hub.collector import Collector
from zmon.hub.discovery.file_sd import FileTargets
from zmon.schema.api import endpoints
from zmon.schema.api.collected import CollectedReports, CollectRequest, ReportRequest
from zmon.schema.limits import MAX_VERSION_LETTERS
from zmon.schema.shard import Shard
from zmon.web import client


class RunningCollector:
    """A collector of these agents, which a test can end and start again at the same port."""

    def __init__(self, tmp_path, *agents, **config):
        urls = tuple(agent.url for agent in agents)
        self._config = HubConfig(urls, tmp_path, agent_timeout_seconds=0.3, **config)
        self._server, self.port = None, None

    async def start(self):
        self._server = TestServer(Collector(self._config).app(), port=self.port)
        await self._server.start_server()
        self.port, self.url = self._server.port, str(self._server.make_url("")).rstrip("/")

    async def stop(self):
        await self._server.close()


@asynccontextmanager
async def collecting(tmp_path, *groups, **config):
    """Run a collector for each group of agents, and a hub that asks the collectors."""
    async with contexts([agent for group in groups for agent in group]):
        collectors = [RunningCollector(tmp_path, *group) for group in groups]
        for each in collectors:
            await each.start()
        urls = tuple(each.url for each in collectors)
        async with hub_over(tmp_path, collectors=urls, agent_timeout_seconds=0.3, **config) as hub_client:
            yield hub_client, collectors
        for each in collectors:
            await each.stop()


def run(scenario, tmp_path, *groups, **config):
    async def main():
        async with collecting(tmp_path, *groups, **config) as (hub_client, collectors):
            await asyncio.wait_for(scenario(hub_client, *collectors), 30)

    asyncio.run(main())


async def causes(hub_client):
    return [(finding["cause"], finding["ranks"]) for finding in await hub_client.findings()]


def freeze(a, b):
    """Stop rank 2; the others wait for it."""
    a.ranks = [waiting(rank, 1.0) for rank in (0, 1)]
    b.ranks = [stopped(2, host="node-b"), replace(waiting(3, 1.0), host="node-b")]
    b.suspects, b.version = [{"job_id": JOB, "rank": 2, "reason": "stopped"}], b.version + 1


def test_hub_sees_all_ranks_and_steps_through_collectors(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        (snapshot,) = hub_client.hub.snapshots
        assert [r.rank for r in snapshot.ranks] == [0, 1, 2, 3]
        for agent in (a, b):
            agent.records = {JOB: {r.run_uid: tuple(map(step_record, (1, 2, 3))) for r in agent.ranks}}

        async def steps():
            return [step.step for snapshot in hub_client.hub.snapshots for step in snapshot.steps]

        assert await poll(steps) == [1, 2, 3]
        assert await hub_client.metric("zmon_hub_coverage_ratio") == [1.0]

    run(scenario, tmp_path, [a], [b])


def test_suspect_reaches_the_hub_at_once(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        async def known():
            return hub_client.hub.snapshots

        assert await poll(known)
        freeze(a, b)

        async def findings():
            return await causes(hub_client)

        assert await poll(findings) == [("rank_frozen", [2])]

    run(scenario, tmp_path, [a], [b], interval_seconds=60.0)


def test_evidence_comes_from_the_agents_themselves(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        freeze(a, b)

        async def requests():
            return a.evidence_requests() and b.evidence_requests()

        assert await poll(requests)

    run(scenario, tmp_path, [a], [b])


def test_dead_collector_is_lost_coverage_and_resolves_nothing(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        freeze(a, b)

        async def findings():
            return ("rank_frozen", [2]) in await causes(hub_client)

        assert await poll(findings)
        await second.stop()

        async def half():
            return await hub_client.metric("zmon_hub_coverage_ratio") == [0.5]

        assert await poll(half)
        await hub_client.passes(5)
        assert ("rank_frozen", [2]) in await causes(hub_client)
        (lost,) = [link for link in hub_client.hub.links if not link.reachable]
        assert lost.error.startswith("its collector does not answer: ")
        assert lost.status().silent_collector == lost.collector != ""
        a.ranks = [rank_state(rank, step=200) for rank in (0, 1)]
        b.ranks = [rank_state(rank, step=200, host="node-b") for rank in (2, 3)]
        b.suspects, b.version = [], b.version + 1
        await hub_client.passes(3)
        assert ("rank_frozen", [2]) in await causes(hub_client)
        await second.start()

        async def resolved():
            return not await causes(hub_client)

        assert await poll(resolved, 15)
        assert await hub_client.metric("zmon_hub_coverage_ratio") == [1.0]
        assert lost.status().silent_collector == ""

    run(scenario, tmp_path, [a], [b])


def test_dead_collector_does_not_make_its_hosts_lost(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        await second.stop()
        await hub_client.passes(2)
        a.ranks = [waiting(rank, 60.0) for rank in (0, 1)]  # past their lease
        await hub_client.passes(5)
        assert "host_lost" not in [cause for cause, _ in await causes(hub_client)]

    run(scenario, tmp_path, [a], [b])


def test_hub_without_any_collector_that_answers_is_blind(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        await first.stop()

        async def blind():
            return hub_client.hub.blind

        assert await poll(blind)

    run(scenario, tmp_path, [a, b])


def test_silent_agent_does_not_delay_the_others(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        b.hangs = True

        async def silent():
            return [link.reachable for link in hub_client.hub.links].count(False) == 1

        assert await poll(silent)
        await hub_client.passes(10)
        b.hangs = False

        async def all_answer():
            return all(link.reachable for link in hub_client.hub.links)

        assert await poll(all_answer)

    run(scenario, tmp_path, [a, b])


def test_agent_that_a_collector_loses_is_no_target_any_more(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        await first.stop()
        first._config = replace(first._config, agents=(a.url,))
        await first.start()

        async def withdrawn():
            return [link.is_target for link in hub_client.hub.links].count(False) == 1

        assert await poll(withdrawn)

    run(scenario, tmp_path, [a, b])


def test_two_hubs_use_one_collector_without_taking_steps_from_each_other(tmp_path):
    agent = FakeAgent(*(rank_state(rank) for rank in range(4)))

    async def main():
        async with contexts([agent]):
            collector = RunningCollector(tmp_path, agent)
            await collector.start()
            async with aiohttp.ClientSession() as session:
                for name in ("hub-a", "hub-b"):
                    request = CollectRequest(name, (ReportRequest(agent.url, since=7),), about=8)
                    answer = await client.post(
                        session, collector.url, endpoints.COLLECT, request, CollectedReports, 1.0
                    )
                    assert [(each.url, each.error) for each in answer.agents] == [(agent.url, "")]
            await collector.stop()
        assert len([path for path in agent.requests if "since=7" in path]) == 2

    asyncio.run(main())


def test_request_that_is_none_is_refused_with_one_line(tmp_path):
    async def main():
        collector = RunningCollector(tmp_path)
        await collector.start()
        async with (
            aiohttp.ClientSession() as session,
            session.post(collector.url + endpoints.COLLECT, data=b"\xc1") as answer,
        ):
            assert answer.status == 400
            assert (await answer.json())["error"].startswith("this is no request of a hub: ")
        await collector.stop()

    asyncio.run(main())


def test_collector_is_healthy_while_a_hub_asks_and_an_agent_answers(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        async with aiohttp.ClientSession() as session, session.get(f"{first.url}/healthz") as answer:
            assert answer.status == 200
            assert len((await answer.json())["agents"]) == 2
        async with aiohttp.ClientSession() as session, session.get(f"{first.url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        assert "zmon_collector_agents 2.0" in lines
        assert "zmon_collector_agents_answering 2.0" in lines

    run(scenario, tmp_path, [a, b])


def test_answer_says_which_steps_it_has(tmp_path):
    """The answer of a slow agent may be that to an earlier request."""
    agent = FakeAgent(*(rank_state(rank) for rank in range(4)))

    async def main():
        async with contexts([agent]):
            collector = RunningCollector(tmp_path, agent)
            await collector.start()
            async with aiohttp.ClientSession() as session:
                for since in (7, -1):
                    request = CollectRequest("hub", (ReportRequest(agent.url, since=since),), about=8)
                    path = endpoints.COLLECT
                    answer = await client.post(session, collector.url, path, request, CollectedReports, 1.0)
                    assert [each.since for each in answer.agents] == [since]
            await collector.stop()

    asyncio.run(main())


def test_agent_with_a_huge_version_does_not_blind_its_collector(tmp_path):
    """The hub sends the version back in its request, and a collector reads 1 MiB at most."""
    a, b = two_agents()
    a.plans_version = "x" * (2 << 20)

    async def scenario(hub_client, first):
        await hub_client.passes(3)
        assert {link.url: link.reachable for link in hub_client.hub.links} == {a.url: False, b.url: True}

    run(scenario, tmp_path, [a, b])


def test_request_for_the_most_agents_is_small_enough_for_a_collector():
    longest = "\U0001f600" * MAX_VERSION_LETTERS
    agents = (ReportRequest(f"http://{'n' * 64}.example.com:9780", 1 << 62, longest, longest),) * 2048
    assert len(msgspec.msgpack.encode(CollectRequest("hub", agents))) < 1 << 20


def test_two_requests_of_one_hub_at_a_time_are_both_answered(tmp_path):
    agent = FakeAgent(*(rank_state(rank) for rank in range(4)))

    async def main():
        async with contexts([agent]):
            collector = RunningCollector(tmp_path, agent)
            await collector.start()
            async with aiohttp.ClientSession() as session:
                ask = (CollectRequest("hub"), CollectedReports, 1.0)
                answers = await asyncio.gather(
                    *(client.post(session, collector.url, endpoints.COLLECT, *ask) for _ in range(2))
                )
            assert [len(answer.agents) for answer in answers] == [1, 1]
            assert "" in {answer.agents[0].error for answer in answers}
            await collector.stop()

    asyncio.run(main())


def test_hub_of_a_shard_judges_only_its_jobs(tmp_path):
    a, b = two_agents()
    a.ranks = [replace(r, job_id="a") for r in a.ranks]
    b.ranks = [replace(r, job_id="b") for r in b.ranks]

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        assert [snapshot.job_id for snapshot in hub_client.hub.snapshots] == ["b"]
        assert all("shard=1%2F4" in path or "shard=1/4" in path for path in a.requests if "snapshot" in path)

    run(scenario, tmp_path, [a, b], shard=Shard(1, 4))


# -- a hub that does not know all agents yet ---------------------------------------------------------------


def frozen_and_other():
    """Return the agents of two jobs. A rank of the first one is stopped."""
    a = FakeAgent(rank_state(0, job_id="a", world_size=2), stopped(1, job_id="a", world_size=2))
    a.suspects, a.version = [{"job_id": "a", "rank": 1, "reason": "stopped"}], 1
    return a, FakeAgent(rank_state(0, job_id="b", world_size=1, host="node-b"), host="node-b")


async def opened(hub_client):
    """Wait for the finding about the stopped rank."""

    async def findings():
        return await causes(hub_client)

    assert await poll(findings) == [("rank_frozen", [1])]


def test_hub_that_starts_while_a_collector_is_dead_resolves_nothing_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.hub.journal.RESOLVE_AFTER_SECONDS", 0.0)
    a, b = frozen_and_other()

    async def main():
        async with contexts([a, b]):
            first, second = RunningCollector(tmp_path, a), RunningCollector(tmp_path, b)
            await first.start()
            await second.start()
            config = {"collectors": (first.url, second.url), "agent_timeout_seconds": 0.3}
            async with hub_over(tmp_path, **config) as hub_client:
                await opened(hub_client)
            await first.stop()
            async with hub_over(tmp_path, **config) as hub_client:
                await hub_client.passes(5)
                assert ("rank_frozen", [1]) in await causes(hub_client)
                ((url, reason),) = (await hub_client.get("/healthz"))["discovery"].items()
                assert (url, reason != "") == (first.url, True)
                hub_client.hub._began -= FORGET_SECONDS

                async def resolved():
                    return ("rank_frozen", [1]) not in await causes(hub_client)

                assert await poll(resolved)
            await second.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_hub_does_not_forget_jobs_whose_agents_a_collector_has_not_found_yet(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.hub.journal.RESOLVE_AFTER_SECONDS", 0.0)
    a, b = frozen_and_other()

    async def main():
        async with contexts([a, b]):
            path = tmp_path / "agents.json"
            first = RunningCollector(tmp_path, b, sources=(FileTargets(str(path), "http"),))
            path.write_text(json.dumps([{"targets": [a.url.removeprefix("http://")]}]))
            await first.start()
            config = {"collectors": (first.url,), "agent_timeout_seconds": 0.3}
            async with hub_over(tmp_path, **config) as hub_client:
                await opened(hub_client)
                a.ranks = [dead(rank, 1.0, job_id="a", world_size=2) for rank in (0, 1)]
                await hub_client.passes(2)
                path.unlink()
                await first.stop()
                await first.start()
                await hub_client.passes(3)
                assert {snapshot.job_id for snapshot in hub_client.hub.snapshots} == {"a", "b"}
                assert [link.error is None for link in hub_client.hub.links if link.url == a.url] == [False]
            active = {finding.id for finding in hub_client.hub.journal.active()}
            async with hub_over(tmp_path, **config) as hub_client:
                await hub_client.passes(3)
                assert {finding.id for finding in hub_client.hub.journal.active()} >= active != set()
                assert (await hub_client.get("/healthz"))["discovery"] == {
                    first.url: "this collector waits for a source of its agents"
                }
            await first.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


# -- agents that come and go -------------------------------------------------------------------------------


async def restart_with(collector, *agents):
    await collector.stop()
    collector._config = replace(collector._config, agents=tuple(agent.url for agent in agents))
    await collector.start()


def test_agent_that_no_collector_names_is_forgotten_after_an_hour(tmp_path, monkeypatch):
    a, b = two_agents()
    b.ranks = [replace(r, job_id="other") for r in b.ranks]

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        await restart_with(first, a)
        await hub_client.passes(3)

        async def jobs():
            return sorted(snapshot.job_id for snapshot in hub_client.hub.snapshots)

        assert await jobs() == [JOB, "other"]
        monkeypatch.setattr("zmon.hub.agent_link.FORGET_SECONDS", 0.0)

        async def forgotten():
            return [link.url for link in hub_client.hub.links] == [a.url] and await jobs() == [JOB]

        assert await poll(forgotten)

    run(scenario, tmp_path, [a, b])


def test_agents_beyond_the_most_are_told_until_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr("zmon.hub.collector_poller.MAX_AGENTS", 1)
    a, b = two_agents()

    async def scenario(hub_client, first):
        await hub_client.passes(2)
        (link,) = hub_client.hub.links
        (line,) = (await hub_client.get("/healthz"))["discovery"].values()
        assert line.startswith("not asked: 1 agent, because")
        await restart_with(first, a if link.url == a.url else b)

        async def untold():
            return not (await hub_client.get("/healthz"))["discovery"]

        assert await poll(untold)

    run(scenario, tmp_path, [a, b])


def test_agent_of_two_collectors_is_watched_while_one_of_them_is_dead(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        await second.stop()

        async def dead():
            return [each.url for each in hub_client.hub.collectors.collectors if not each.reachable] == [second.url]

        assert await poll(dead)
        for _ in range(20):
            await hub_client.passes(1)
            assert [link.error for link in hub_client.hub.links] == [None, None]
        assert {link.collector for link in hub_client.hub.links} == {first.url}

    run(scenario, tmp_path, [a, b], [a, b])


def test_agent_that_discovery_names_too_is_asked_by_the_hub_after_its_collector_drops_it(tmp_path):
    a, b = two_agents()

    async def main():
        async with contexts([a, b]):
            path = tmp_path / "agents.json"
            path.write_text(json.dumps([{"targets": [b.url.removeprefix("http://")]}]))
            source = FileTargets(str(path), "http")
            source.interval_seconds = 0.05
            first = RunningCollector(tmp_path, a, b)
            await first.start()
            async with hub_over(tmp_path, collectors=(first.url,), sources=(source,)) as hub_client:
                await hub_client.passes(2)
                await restart_with(first, a)

                async def own():
                    return [(each.reachable, each.collector) for each in hub_client.hub.links if each.url == b.url]

                async def is_asked():
                    return await own() == [(True, "")]

                assert await poll(is_asked)
            await first.stop()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_collector_that_never_answered_delays_one_pass_only(tmp_path):
    a, b = two_agents()

    async def main():
        async with contexts([a, b]):
            first = RunningCollector(tmp_path, a, b)
            await first.start()
            with socket.create_server(("127.0.0.1", 0)) as silent:
                urls = (first.url, f"http://127.0.0.1:{silent.getsockname()[1]}")
                async with hub_over(tmp_path, collectors=urls, agent_timeout_seconds=1.0) as hub_client:
                    await hub_client.passes(1)
                    (dead,) = [each for each in hub_client.hub.collectors.collectors if each.url != first.url]
                    requests = hub_client.hub.collectors._requests
                    await hub_client.passes(1)
                    waiting = requests[dead.url]
                    await hub_client.passes(2)
                    assert requests[dead.url] is waiting
                    assert not waiting.done()
            await first.stop()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_agent_of_two_collectors_stays_with_the_other_one(tmp_path):
    a, b = two_agents()

    async def scenario(hub_client, first, second):
        await hub_client.passes(2)
        (link,) = [link for link in hub_client.hub.links if link.url == a.url]
        last, other = (first, second) if link.collector == first.url else (second, first)
        await restart_with(last, b)

        async def left():
            return link.collector == other.url

        assert await poll(left)
        await hub_client.passes(2)
        assert link.is_target
        assert link in hub_client.hub.links

    run(scenario, tmp_path, [a, b], [a, b])
