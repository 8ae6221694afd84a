"""Tests of the table of endpoints. Agent and hub serve these endpoints and answer random requests."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import HealthCheck, given, settings

from tests.hub.fakes import FakeAgent, healthy, hub_over
from tests.schema.requests import requests, url_of
from zmon.agent import Agent, AgentConfig
from zmon.hub import Hub, HubConfig
from zmon.schema.api import Problem, endpoints
from zmon.web.access import OPEN_PATHS
from zmon.web.responses import json_response
from zmon.web.server import read_request

PAGES = {"/metrics", "/api/v1/incidents/{id}/report.html"}  # not JSON
EVERY = [*endpoints.AGENT, *endpoints.HUB]
BY_ENDPOINT = {"ids": lambda endpoint: f"{endpoint.daemon} {endpoint.path}"}
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def paths(app):
    """Return the paths of an application, with the names of their parameters."""
    return {route.resource.canonical for route in app.router.routes()}


async def send_random_requests(endpoint, send):
    """Let hypothesis make requests in its own thread, and send each one in this loop."""
    loop = asyncio.get_running_loop()

    @QUICK
    @given(requests(endpoint))
    def send_one(request):
        asyncio.run_coroutine_threadsafe(send(request), loop).result(10)

    await asyncio.to_thread(send_one)


def sent(client, endpoint, request):
    """Send a request as clients do."""
    url = client.make_url("/").join(url_of(endpoint, request))
    if endpoint.method == "GET":
        return client.session.get(url)
    headers = {"Content-Type": "application/json"}
    return client.session.post(url, data=msgspec.json.encode(request), headers=headers)


def test_agent_has_exactly_the_routes_of_the_table(tmp_path):
    app = Agent(AgentConfig(tmp_path, "node-a"), ()).app()
    assert paths(app) == {endpoint.path for endpoint in endpoints.AGENT} | {"/metrics", *OPEN_PATHS}


def test_hub_has_exactly_the_routes_of_the_table(tmp_path):
    app = Hub(HubConfig((), tmp_path)).app()
    assert paths(app) == {endpoint.path for endpoint in endpoints.HUB} | PAGES | {*OPEN_PATHS}


@pytest.mark.parametrize("endpoint", EVERY, **BY_ENDPOINT)
async def test_request_is_decoded_from_its_url(endpoint):
    received = []

    async def handler(request):
        received.append(await read_request(endpoint, request))
        return json_response(Problem("read"))

    async def send(request):
        async with sent(client, endpoint, request) as answer:
            assert answer.status == 200
        assert received[-1] == request

    app = web.Application()
    app.router.add_route(endpoint.method, endpoint.path, handler)
    async with TestClient(TestServer(app)) as client:
        await send_random_requests(endpoint, send)


async def check_answers(client, endpoint):
    """Check that random requests have a typed answer each, or one line with the reason why not."""

    async def check(request):
        async with sent(client, endpoint, request) as answer:
            body = await answer.read()
            assert answer.status in (200, 400, 404, 503), body
            if answer.status == 200:
                msgspec.json.decode(body, type=endpoint.answer)
            elif endpoint.path != "/healthz" and answer.content_type == "application/json":
                assert "\n" not in msgspec.json.decode(body, type=Problem).error

    await send_random_requests(endpoint, check)


@pytest.mark.parametrize("endpoint", endpoints.HUB, **BY_ENDPOINT)
async def test_hub_answers_random_requests(tmp_path, endpoint):
    agent = FakeAgent(*healthy())
    async with agent.serve(), hub_over(tmp_path, agent) as hub_client:
        await hub_client.passes(1)
        await check_answers(hub_client.client, endpoint)


@pytest.mark.parametrize("endpoint", endpoints.AGENT, **BY_ENDPOINT)
async def test_agent_answers_random_requests(tmp_path, endpoint):
    async with TestClient(TestServer(Agent(AgentConfig(tmp_path, "node-a"), ()).app())) as client:
        await check_answers(client, endpoint)


@pytest.mark.parametrize("endpoint", EVERY, **BY_ENDPOINT)
def test_answers_allow_unknown_fields(endpoint):
    """Unknown fields are ignored by msgspec unless a type forbids it."""
    assert not getattr(getattr(endpoint.answer, "__struct_config__", None), "forbid_unknown_fields", False)
