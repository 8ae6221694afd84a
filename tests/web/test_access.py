"""Tests of roles: each path of agent and hub, for each kind of principal."""

import asyncio
import base64
import contextlib
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientConnectorError, ClientSession
from aiohttp.test_utils import unused_port

from tests.agent.agent_client import poll
from tests.web.certificates import OPTIONAL, Certificates, hashed, live_config
from zmon.agent import Agent, AgentConfig
from zmon.hub import Hub, HubConfig
from zmon.schema.api import endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.received import decode
from zmon.web.server import serve

TOKEN, HEALER_TOKEN = "0123456789abcdef", "fedcba9876543210"
UNNAMED, NOT_ALLOWED = 401, 403
ACTS = endpoints.ACTS.path  # the only POST
SPECIAL_STATUSES = {ACTS: (415,), "/healthz": (200, 503)}  # acts: no body; health: the hub has no agent


def basic(user, password):
    """Return the options of a request with this password."""
    return {"headers": {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}}


def bearer(token):
    """Return the options of a request with this token."""
    return {"headers": {"Authorization": f"Bearer {token}"}}


ROLES = [
    {"user": "prometheus", "roles": ["metrics"]},
    {"user": "ann", "roles": ["read"]},
    {"client_san": "hub.example.org", "roles": ["read", "evidence"]},
    {"token_file": "token", "roles": ["metrics", "read"]},
    {"token_file": "healer", "roles": ["actions"]},
]


class Client(NamedTuple):
    """Somebody who asks, and what they may do."""

    roles: tuple[str, ...] | None  # None: it is not known who asks
    options: dict[str, Any]  # of the request
    has_certificate: bool = False


CLIENTS = {
    "nobody": Client(None, {}),
    "wrong password": Client(None, basic("ann", "wrong")),
    "wrong token": Client(None, bearer("x")),
    "no user of zmon_roles": Client((), basic("bob", "pass")),
    "prometheus": Client(("metrics",), basic("prometheus", "scrape")),
    "ann": Client(("read",), basic("ann", "secret")),
    "token": Client(("metrics", "read"), bearer(TOKEN)),
    "healer": Client(("actions",), bearer(HEALER_TOKEN)),
    "hub": Client(("read", "evidence"), {}, has_certificate=True),
}
PATHS = {
    daemon: ("/metrics", *(endpoint.path.format(job_id="job", rank=0, id="id") for endpoint in table), "/none")
    for daemon, table in (("agent", endpoints.AGENT), ("hub", endpoints.HUB))
}


@pytest.fixture(scope="module")
def web_config(tmp_path_factory):
    """The configuration of a server with ROLES, and the authority of its certificates."""
    folder = tmp_path_factory.mktemp("access")
    certificates = Certificates(folder)
    certificates.issue("server", "127.0.0.1")
    certificates.issue("hub", "hub.example.org")
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "healer").write_text(f"{HEALER_TOKEN}\n")
    users = {"prometheus": hashed("scrape"), "ann": hashed("secret"), "bob": hashed("pass")}
    return live_config(folder, tls_server_config=OPTIONAL, basic_auth_users=users, zmon_roles=ROLES), certificates


def app_of(daemon, directory, live):
    """Return the application of an agent or a hub with this web configuration."""
    if daemon == "agent":
        return Agent(AgentConfig(directory / "boxes", "node-a", web=live, allow_actions=True)).app()
    return Hub(HubConfig(("https://127.0.0.1:1",), directory / "data", web=live)).app()


@pytest.fixture(scope="module", params=["agent", "hub"])
def answers(request, web_config):
    """The name of a running daemon, and its statuses and bodies by path and by who asks."""
    live, certificates = web_config
    directory = certificates.directory
    app = app_of(request.param, directory, live)
    plain, certified = certificates.client(), certificates.client((directory / "hub.pem", directory / "hub.key"))
    port = unused_port()

    async def ask():
        running = asyncio.create_task(serve(app, "127.0.0.1", port, request.param, live=live))
        by_path = {}
        async with ClientSession(f"https://127.0.0.1:{port}") as session:
            assert await poll(lambda: is_ready(session, plain, request.param))
            for who, client in CLIENTS.items():
                context = certified if client.has_certificate else plain
                for path in (*PATHS[request.param], "/livez", "/readyz"):
                    method = "POST" if path == ACTS else "GET"
                    async with session.request(method, path, ssl=context, **client.options) as answer:
                        by_path[path, who] = answer.status, await answer.read()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return by_path

    return request.param, asyncio.run(ask())


async def is_ready(session, context, daemon):
    """Return True if the daemon answers its probe with 200."""
    path = "/readyz" if daemon == "agent" else "/livez"  # a hub without agents is never ready
    with contextlib.suppress(ClientConnectorError):
        async with session.get(path, ssl=context) as answer:
            return answer.status == 200


def needed(path):
    """Return the role that a path needs."""
    return {"/metrics": "metrics", "/api/v1/evidence/job/0": "evidence", ACTS: "actions"}.get(path, "read")


@pytest.mark.parametrize("who", CLIENTS)
def test_role_decides_what_may_be_asked(answers, who):
    daemon, statuses = answers
    for path in PATHS[daemon]:
        status, _ = statuses[path, who]
        granted = CLIENTS[who].roles
        if granted is None:
            assert status == UNNAMED, path
        elif needed(path) not in granted:
            assert status == NOT_ALLOWED, path
        else:
            expected = (404,) if path not in endpoints.ROLES else SPECIAL_STATUSES.get(path, (200,))
            assert status in expected, path


@pytest.mark.parametrize("answers", ["agent"], indirect=True)
def test_agent_tells_a_hub_without_the_role_that_it_refuses_acts(answers):
    _, statuses = answers
    status, body = statuses["/api/v1/snapshot", "hub"]
    assert (status, decode(body, AgentReport).refuses_acts) == (200, "the client lacks the role actions")


@pytest.mark.parametrize("who", CLIENTS)
def test_probes_of_an_orchestrator_need_no_role_and_have_no_body(answers, who):
    _, statuses = answers
    assert statuses["/livez", who] == (200, b"")
    status, body = statuses["/readyz", who]
    assert status in (200, 503)
    assert body == b""


@pytest.mark.parametrize(("daemon", "paths"), [("agent", set()), ("hub", {"/api/v1/incidents/{id}/report.html"})])
def test_only_these_paths_have_no_role_of_their_own(web_config, tmp_path, daemon, paths):
    routes = {route.resource.canonical for route in app_of(daemon, tmp_path, web_config[0]).router.routes()}
    assert routes - endpoints.ROLES.keys() - {"/livez", "/readyz"} == paths
    others = endpoints.AGENT if daemon == "hub" else endpoints.HUB
    assert endpoints.ROLES.keys() <= routes | {endpoint.path for endpoint in others}
