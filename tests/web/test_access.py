"""Tests of roles: each path of agent and hub, for each kind of principal."""

import asyncio
import base64

import bcrypt
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import unused_port

from tests.web.certificates import OPTIONAL, Certificates, live_config
from zmon.agent import Agent, AgentConfig
from zmon.hub import Hub, HubConfig
from zmon.schema.api import endpoints
from zmon.schema.api.agent import AgentReport
from zmon.schema.api.received import decode
from zmon.web.server import serve

TOKEN = "0123456789abcdef"
UNNAMED, NOT_ALLOWED = 401, 403
ACTS = endpoints.ACTS.path  # the only POST; without a body it is refused with 415 after the check of the role


def basic(user, password):
    return {"headers": {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}}


def hashed(password):
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


ROLES = [
    {"user": "prometheus", "roles": ["metrics"]},
    {"user": "ann", "roles": ["read"]},
    {"client_san": "hub.example.org", "roles": ["read", "evidence"]},
    {"token_file": "token", "roles": ["metrics", "read"]},
    {"token_file": "healer", "roles": ["actions"]},
]
WHO = {
    "nobody": {},
    "wrong password": basic("ann", "wrong"),
    "wrong token": {"headers": {"Authorization": "Bearer x"}},
    "no user of zmon_roles": basic("bob", "pass"),
    "prometheus": basic("prometheus", "scrape"),
    "ann": basic("ann", "secret"),
    "token": {"headers": {"Authorization": f"Bearer {TOKEN}"}},
    "healer": {"headers": {"Authorization": f"Bearer {TOKEN[::-1]}"}},
    "hub": {"certificate": True},
}
# The roles of each; None: it is not known who asks.
GRANTED = {
    "nobody": None,
    "wrong password": None,
    "wrong token": None,
    "no user of zmon_roles": (),
    "prometheus": ("metrics",),
    "ann": ("read",),
    "token": ("metrics", "read"),
    "healer": ("actions",),
    "hub": ("read", "evidence"),
}
PATHS = {
    "agent": ("/metrics", "/healthz", "/api/v1/snapshot", "/api/v1/suspects", "/api/v1/evidence/job/0", "/none", ACTS),
    "hub": ("/metrics", *(each.path.format(job_id="job", id="id") for each in endpoints.HUB), "/none"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    certificates = Certificates(folder)
    certificates.issue("server", "127.0.0.1")
    certificates.issue("hub", "hub.example.org")
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "healer").write_text(f"{TOKEN[::-1]}\n")
    users = {
        name: hashed(password) for name, password in (("prometheus", "scrape"), ("ann", "secret"), ("bob", "pass"))
    }
    return live_config(folder, tls_server_config=OPTIONAL, basic_auth_users=users, zmon_roles=ROLES), certificates


@pytest.fixture(scope="module", params=["agent", "hub"])
def answers(request, folder):
    """The statuses of a running daemon, by path and by who asks."""
    live, certificates = folder
    directory = certificates.directory
    if request.param == "agent":
        app = Agent(AgentConfig(directory / "boxes", "node-a", web=live, allow_actions=True)).app()
    else:
        app = Hub(HubConfig(("https://127.0.0.1:1",), directory / "data", web=live)).app()
    plain, certified = certificates.client(), certificates.client((directory / "hub.pem", directory / "hub.key"))
    port = unused_port()

    async def ask():
        running = asyncio.create_task(serve(app, "127.0.0.1", port, request.param, live=live))
        await asyncio.sleep(0.3)
        statuses = {}
        async with ClientSession() as session:
            for who, keywords in WHO.items():
                others = {name: value for name, value in keywords.items() if name != "certificate"}
                context = certified if "certificate" in keywords else plain
                for path in (*PATHS[request.param], "/livez", "/readyz"):
                    url = f"https://127.0.0.1:{port}{path}"
                    method = "POST" if path == ACTS else "GET"
                    async with session.request(method, url, ssl=context, **others) as answer:
                        statuses[path, who] = answer.status, await answer.read()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return statuses

    return request.param, asyncio.run(ask())


def needed(path):
    return {"/metrics": "metrics", "/api/v1/evidence/job/0": "evidence", ACTS: "actions"}.get(path, "read")


@pytest.mark.parametrize("who", WHO)
def test_role_decides_what_may_be_asked(answers, who):
    daemon, statuses = answers
    for path in PATHS[daemon]:
        status, _ = statuses[path, who]
        granted = GRANTED[who]
        if granted is None:
            assert status == UNNAMED, path
        elif needed(path) not in granted:
            assert status == NOT_ALLOWED, path
        else:
            assert status in ((415,) if path == ACTS else (200, 404, 503)), path


@pytest.mark.parametrize("answers", ["agent"], indirect=True)
def test_agent_tells_a_hub_without_the_role_that_it_refuses_acts(answers):
    _, statuses = answers
    status, body = statuses["/api/v1/snapshot", "hub"]
    assert (status, decode(body, AgentReport).refuses_acts) == (200, "the client lacks the role actions")


@pytest.mark.parametrize("who", WHO)
def test_probes_of_an_orchestrator_need_no_role_and_have_no_body(answers, who):
    _, statuses = answers
    assert statuses["/livez", who] == (200, b"")
    status, body = statuses["/readyz", who]
    assert status in (200, 503)
    assert body == b""


def test_every_endpoint_has_a_role():
    assert set(endpoints.ROLES) == {"/metrics", *(each.path for each in (*endpoints.AGENT, *endpoints.HUB))}
    assert [path for path, role in endpoints.ROLES.items() if role == "evidence"] == [endpoints.EVIDENCE.path]
    assert [path for path, role in endpoints.ROLES.items() if role == "actions"] == [ACTS]
