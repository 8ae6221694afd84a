"""Tests of agents that come and go while the hub runs."""

import asyncio
import json

import pytest

from tests.build import rank_state, waiting
from tests.hub.fakes import FakeAgent, contexts, hub_over, poll, two_agents
from zmon.errors import UsageError
from zmon.hub import config, discovery
from zmon.hub.discovery.file_sd import FileTargets
from zmon.schema.http_config import HttpConfig
from zmon.web.kubernetes.api_server import ApiServer


class QuickFile(FileTargets):
    """A file of targets that the hub reads every 50 ms."""

    interval_seconds = 0.05


class Targets:
    """The file that names the agents of a test."""

    def __init__(self, path):
        self.path = path

    def write(self, *agents):
        """Let the file name these agents."""
        self.replace(json.dumps([{"targets": [agent.url.removeprefix("http://") for agent in agents]}]))

    def replace(self, text):
        """Replace the file by one with this text."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)


@pytest.fixture
def start(opened, tmp_path):
    """Return a coroutine function that starts these agents and a hub whose agents a file names, at first the first."""

    async def start(*agents):
        targets = Targets(tmp_path / "agents.json")
        await opened.enter_async_context(contexts(agents))
        targets.write(*agents[:1])
        sources = (QuickFile(str(targets.path), "http"),)
        return await opened.enter_async_context(hub_over(tmp_path / "data", sources=sources)), targets

    return start


async def agents_of(hub_client):
    """Return the agents that the hub asks, as /healthz shows them, by URL."""
    return {agent["url"]: agent for agent in await hub_client.health("agents")}


async def wait_for_no_error(hub_client):
    """Wait until the file is read without an error."""
    assert await poll(lambda: hub_client.health("discovery"), until={}.__eq__) == {}


async def wait_for_ranks(hub_client, number):
    """Wait until the hub has this number of ranks of the job."""

    async def ranks_seen():
        return [job["ranks_seen"] for job in await hub_client.jobs()]

    assert await poll(ranks_seen, until=[number].__eq__) == [number]


async def test_agent_is_asked_while_it_is_a_target_and_its_ranks_are_unwatched_afterwards(start):
    node_a, node_b = two_agents()
    hub_client, targets = await start(node_a, node_b)
    targets.write(node_a, node_b)
    await wait_for_ranks(hub_client, 4)
    assert any("suspects" in path for path in node_b.requests)
    targets.write(node_a)
    await wait_for_ranks(hub_client, 2)
    status = (await agents_of(hub_client))[node_b.url]
    assert (status["reachable"], status["error"]) == (False, "it is no longer a target")
    num_requests = len(node_b.requests)
    node_a.ranks = [waiting(rank, 20.0) for rank in (0, 1)]  # as if they waited for the ranks of node-b
    await hub_client.passes(20)
    assert len(node_b.requests) <= num_requests + 1
    causes = {finding["cause"] for finding in await hub_client.findings()}
    assert not causes & {"host_lost", "rank_exited"}, causes
    targets.write(node_a, node_b)
    await wait_for_ranks(hub_client, 4)


async def test_agent_without_living_ranks_is_forgotten_at_once(start):
    node_a, node_b = two_agents()
    node_b.ranks = []
    hub_client, targets = await start(node_a, node_b)
    targets.write(node_a, node_b)
    assert len(await poll(lambda: agents_of(hub_client), until=lambda agents: len(agents) == 2)) == 2
    await hub_client.passes()
    targets.write(node_a)
    assert len(await poll(lambda: agents_of(hub_client), until=lambda agents: len(agents) == 1)) == 1


async def test_broken_file_keeps_the_agents_with_an_error(start):
    agent = FakeAgent(*(rank_state(rank) for rank in range(2)))
    hub_client, targets = await start(agent)
    await hub_client.passes(1)
    targets.replace('[{"targets": "node-1"}]')
    (reason,) = (await poll(lambda: hub_client.health("discovery"))).values()
    assert "Expected `array`, got `str` - at `$[0].targets`" in reason
    await hub_client.passes()
    targets.write(agent)
    await wait_for_no_error(hub_client)


async def hub_with_empty_list(start, monkeypatch, agent):
    """Return the client of a hub whose list has lost its only agent, and the list; the hub holds the agent for 1 s."""
    monkeypatch.setattr(discovery, "HOLD_SECONDS", 1.0)
    hub_client, targets = await start(agent)
    await hub_client.passes(2)
    targets.replace("[]")
    (reason,) = (await poll(lambda: hub_client.health("discovery"))).values()
    assert reason.startswith("it names 0 agents instead of 1: the others are asked for 1.0 s more")
    assert (await agents_of(hub_client))[agent.url]["reachable"]
    return hub_client, targets


async def test_list_that_is_whole_again_within_the_hold_time_keeps_its_agents(start, monkeypatch):
    agent = FakeAgent(*(rank_state(rank) for rank in range(2)))
    hub_client, targets = await hub_with_empty_list(start, monkeypatch, agent)
    targets.write(agent)
    await wait_for_no_error(hub_client)
    await asyncio.sleep(1.2)  # longer than the hold time
    assert (await agents_of(hub_client))[agent.url]["reachable"]


async def test_list_that_stays_empty_loses_its_agents_after_the_hold_time(start, monkeypatch):
    hub_client, _ = await hub_with_empty_list(start, monkeypatch, FakeAgent(*(rank_state(rank) for rank in range(2))))

    def none_is_reachable(agents):
        return not any(status["reachable"] for status in agents.values())

    assert none_is_reachable(await poll(lambda: agents_of(hub_client), until=none_is_reachable))
    assert [*(await hub_client.health("discovery")).values()] == ["it names no agent"]


async def test_agents_beyond_the_limit_are_an_error(start, monkeypatch):
    node_a, node_b = two_agents()
    monkeypatch.setattr(config, "_MAX_DISCOVERED", 1)
    hub_client, targets = await start(node_a, node_b)
    await hub_client.passes(1)
    targets.write(node_a, node_b)
    assert "not asked: 1 agent," in str(await poll(lambda: hub_client.health("discovery")))
    assert len(await agents_of(hub_client)) == 1
    targets.write(node_a)
    await wait_for_no_error(hub_client)


def test_words_of_agents_are_urls_and_sources():
    words = (
        "http://a:9780/",
        "file:/etc/agents.json",
        "dns:zmon-agent:9780",
        "srv:_zmon._tcp.org",
        "prometheus:http://p",
        "kubernetes:zmon/app=agent",
        "kubernetes:zmon/app=agent,zone in (a,b):9781",
    )
    urls, sources = discovery.agents(words, "http", None, lambda: ApiServer("https://10.0.0.1:443", HttpConfig()))
    assert urls == ("http://a:9780",)
    assert [source.name for source in sources] == list(words[1:])


NO_AGENTS = "node-1:9780 file: dns:name dns::1 srv: prometheus:p:9090 ftp://a kubernetes:app=agent b=c"


@pytest.mark.parametrize("word", NO_AGENTS.split())
def test_word_that_names_no_agent_is_refused_with_one_line(word):
    with pytest.raises(UsageError, match=r"names no agent.*file:PATH"):
        discovery.agents((word,), "http")


def test_empty_list_of_agents_is_refused():
    with pytest.raises(UsageError, match="names no agent"):
        discovery.agents((), "http")
