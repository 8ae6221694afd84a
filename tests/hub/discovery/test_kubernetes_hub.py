"""Tests of a hub whose agents are pods, with an API server on loopback."""

from urllib.parse import urlsplit

import pytest

from tests.build import waiting
from tests.hub.discovery.pods import count, source_of
from tests.hub.discovery.test_agents import agents_of, watched
from tests.hub.fakes import FakeAgent, contexts, hub_over, poll, two_agents
from tests.web.kubernetes.fake_api import FakeApi, pod
from zmon.hub.discovery import kubernetes
from zmon.schema.http_config import Authorization, HttpConfig


def agent_pod(name, agent):
    """Return a pod in which this agent runs."""
    parts = urlsplit(agent.url)
    return pod(name, parts.hostname, ports=(("http", parts.port),))


@pytest.fixture
def start(opened, tmp_path, token_file, monkeypatch):
    """Return a coroutine function that starts a hub whose agents are pods; at first there is the first of two."""
    monkeypatch.setattr(kubernetes, "_RETRY_SECONDS", (0.05, 0.1))

    async def start():
        agents, api = two_agents(), FakeApi()
        await opened.enter_async_context(contexts(agents))
        await opened.enter_async_context(api.serve())
        api.put(a=agent_pod("a", agents[0]))
        hub = hub_over(tmp_path / "data", sources=(source_of(api, token_file),))
        return api, await opened.enter_async_context(hub), *agents

    return start


async def test_agent_whose_pod_comes_is_asked(start):
    api, hub_client, _node_a, node_b = await start()
    await watched(hub_client, 2)
    api.put(b=agent_pod("b", node_b))
    await watched(hub_client, 4)


async def test_ranks_of_a_pod_that_goes_are_unwatched_and_not_gone(start):
    api, hub_client, node_a, node_b = await start()
    api.put(b=agent_pod("b", node_b))
    await watched(hub_client, 4)
    api.delete("b")
    await watched(hub_client, 2)
    status = (await agents_of(hub_client))[node_b.url]
    assert (status["reachable"], status["error"]) == (False, "it is no longer a target")
    node_a.ranks = [waiting(rank, 20.0) for rank in (0, 1)]  # as if they waited for the ranks of node-b
    await hub_client.passes()
    causes = {finding["cause"] for finding in await hub_client.findings()}
    assert not causes & {"host_lost", "rank_exited"}, causes
    api.put(b=agent_pod("b", node_b))
    await watched(hub_client, 4)


async def test_api_server_and_agents_do_not_see_the_credentials_for_each_other(tmp_path, token_file):
    agent, api, shown = FakeAgent(), FakeApi(), set()

    def check(request):
        shown.add(request.headers.get("Authorization"))
        agent.requests.append(request.path_qs)

    agent.check = check
    async with agent.serve(), api.serve():
        api.put(a=agent_pod("a", agent))
        http = HttpConfig(authorization=Authorization(credentials="of-the-hub"))
        async with hub_over(tmp_path / "data", sources=(source_of(api, token_file),), http=http):
            await count(agent.requests, 2)
    assert shown == {"Bearer of-the-hub"}
    assert set(api.authorizations) == {"Bearer token-1"}


async def test_hub_keeps_the_agents_while_the_api_server_does_not_answer_and_says_so(start):
    api, hub_client, _node_a, node_b = await start()
    await watched(hub_client, 2)
    api.refusals = {"list": (503, "starting"), "watch": (503, "starting")}
    api.end_watches()
    assert "starting (503)" in (await poll(lambda: hub_client.health("discovery")))["kubernetes:zmon/app=agent"]
    await hub_client.passes()
    await watched(hub_client, 2)
    api.refusals = {}
    api.put(b=agent_pod("b", node_b))
    await watched(hub_client, 4)
    assert await hub_client.health("discovery") == {}
