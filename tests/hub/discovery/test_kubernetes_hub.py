"""Tests of a hub whose agents are pods, with an API server on loopback."""

from urllib.parse import urlsplit

import pytest

from tests.hub.discovery.pods import source_of, wait_for_requests
from tests.hub.discovery.test_agents import wait_for_ranks
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
        agents = two_agents()
        api = FakeApi()
        await opened.enter_async_context(contexts(agents))
        await opened.enter_async_context(api.serve())
        api.put(a=agent_pod("a", agents[0]))
        hub = hub_over(tmp_path / "data", sources=(source_of(api, token_file),))
        return api, await opened.enter_async_context(hub), *agents

    return start


async def test_api_server_and_agents_do_not_see_the_credentials_for_each_other(tmp_path, token_file, caplog):
    agent = FakeAgent()
    api = FakeApi()
    seen_by_agent = set()

    def check(request):
        seen_by_agent.add(request.headers.get("Authorization"))
        agent.requests.append(request.path_qs)

    agent.check = check
    async with agent.serve(), api.serve():
        api.put(a=agent_pod("a", agent))
        http = HttpConfig(authorization=Authorization(credentials="of-the-hub"))
        async with hub_over(tmp_path / "data", sources=(source_of(api, token_file),), http=http):
            await wait_for_requests(agent.requests, 2)
    assert seen_by_agent == {"Bearer of-the-hub"}
    assert set(api.authorizations) == {"Bearer token-1"}
    assert "each agent sees the authorization of --http-config and can ask the others with it" in caplog.text


async def test_hub_follows_pods_and_keeps_the_agents_while_the_api_server_does_not_answer(start):
    api, hub_client, _node_a, node_b = await start()
    await wait_for_ranks(hub_client, 2)
    api.refusals = {"list": (503, "starting"), "watch": (503, "starting")}
    api.end_watches()
    assert "starting (503)" in (await poll(lambda: hub_client.health("discovery")))["kubernetes:zmon/app=agent"]
    await hub_client.passes()
    await wait_for_ranks(hub_client, 2)
    api.refusals = {}
    api.put(b=agent_pod("b", node_b))
    await wait_for_ranks(hub_client, 4)
    assert await hub_client.health("discovery") == {}
    api.delete("b")
    await wait_for_ranks(hub_client, 2)  # tests/hub/discovery/test_agents.py: they are unwatched, and not gone
