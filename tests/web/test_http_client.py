"""Tests of the session of --http-config: password, token and certificate, renewed while it is open."""

import re
from pathlib import Path

import msgspec
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

import zmon
from tests.web.certificates import MUTUAL, SERVER, Certificates, hashed, live_config
from tests.web.serving import running_server
from zmon.errors import Unreachable, UsageError
from zmon.schema.http_config import may_carry_credentials
from zmon.web import client, http_client
from zmon.web.http_client import read_http_config

USERS = {"ann": hashed("secret")}
ANN = {"username": "ann", "password": "secret"}
TRUST = {"ca_file": "ca.pem"}


@pytest.fixture
def certificates(tmp_path):
    """The certificates of a server and of a hub, beside the configurations."""
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1", "agent.example.org")
    certificates.issue("hub", "hub.example.org")
    return certificates


@pytest.fixture
def server_config(tmp_path, certificates):
    """Return a function that returns the configuration of a server with these keys."""
    return lambda tls=None, **keys: live_config(tmp_path, tls_server_config=SERVER | (tls or {}), **keys)


@pytest.fixture
def client_config(tmp_path, certificates):
    """Return a function that returns the configuration of a client with these keys."""

    def read(**keys):
        path = tmp_path / "http.yaml"
        path.write_text(yaml.safe_dump(keys))
        return read_http_config(path, "agents").agents

    return read


async def status(session, url):
    """Return the status, or the error message. The page is not JSON, so the error about its content means 200."""
    try:
        await client.get(session, url, msgspec.Raw, 2.0)
    except Unreachable as error:
        return "200" if "cannot understand" in str(error) else str(error)
    return "200"


async def ask(of_server, of_client, renew=None):
    """Ask a server, and again after `renew`, in one session; return the status or error message of each request."""
    statuses = []
    async with running_server(live=of_server) as server:
        url = f"https://127.0.0.1:{server.port}/metrics"
        async with http_client.session(of_client) as session:
            statuses.append(await status(session, url))
            if renew is not None:
                renew()
                statuses.append(await status(session, url))
    return statuses


TOKEN_ROLES = [{"token_file": "token", "roles": ["metrics", "read"]}]
REQUESTS = {  # configuration of the server beside its certificate, that of the client, and the answer or the error
    "password": ({"basic_auth_users": USERS}, {"basic_auth": ANN, "tls_config": TRUST}, "200"),
    "no password": (
        {"basic_auth_users": USERS}, {"tls_config": TRUST},
        r"https://\S+ answered 401\. Give a password, token or certificate in --http-config",
    ),
    "token": (
        {"zmon_roles": TOKEN_ROLES}, {"authorization": {"credentials_file": "token"}, "tls_config": TRUST}, "200"
    ),
    "server of another authority": (
        {}, {"tls_config": {"ca_file": "other.pem"}}, r".*unable to get local issuer certificate\. Check ca_file.*"
    ),
    "no authority": ({}, {}, ".*certificate.*"),
    "no verification": ({}, {"tls_config": {"insecure_skip_verify": True}}, "200"),
    "another name of the server": ({}, {"tls_config": TRUST | {"server_name": "agent.example.org"}}, "200"),
    "name of another server": ({}, {"tls_config": TRUST | {"server_name": "hub.example.org"}}, ".*not valid for.*"),
}  # fmt: skip


@pytest.mark.parametrize(("of_server", "of_client", "answer"), REQUESTS.values(), ids=REQUESTS)
async def test_server_answers_whoever_has_a_login_and_trusts_it(
    server_config, client_config, tmp_path, of_server, of_client, answer
):
    Certificates(tmp_path, "other")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (line,) = await ask(server_config(**of_server), client_config(**of_client))
    assert re.fullmatch(answer, line)


async def test_password_in_a_file_is_read_again_for_each_request(server_config, client_config, tmp_path):
    password = tmp_path / "password"
    password.write_text("wrong")
    config = client_config(basic_auth={"username": "ann", "password_file": "password"}, tls_config=TRUST)
    before, after = await ask(server_config(basic_auth_users=USERS), config, lambda: password.write_text("secret\n"))
    assert "401" in before
    assert after == "200"


async def test_renewed_certificate_is_shown_in_the_next_connection(server_config, client_config, certificates):
    of_server = server_config(MUTUAL | {"client_allowed_sans": ["new.example.org"]})
    config = client_config(tls_config=TRUST | {"cert_file": "hub.pem", "key_file": "hub.key"})
    before, after = await ask(of_server, config, lambda: certificates.issue("hub", "new.example.org"))
    assert "cannot reach" in before
    assert after == "200"


async def test_password_file_that_is_gone_is_an_error_of_the_request(client_config):
    config = client_config(basic_auth={"username": "ann", "password_file": "none"}, tls_config=TRUST)
    async with http_client.session(config) as session:
        assert "cannot read" in await status(session, "https://node-1:9780")
    assert session.closed


@pytest.mark.parametrize("url", ["http://192.0.2.1:9780", "http://node-1:9780", "http://ann:secret@node-1:9780"])
async def test_password_is_not_sent_without_tls_beyond_this_machine(client_config, url):
    """The client refuses before it connects: these addresses do not exist. A password in the URL is refused as well."""
    async with http_client.session(None if "@" in url else client_config(basic_auth=ANN)) as session:
        line = await status(session, url)
    assert "is not asked: without TLS, anybody on the network could read the password" in line
    assert line.endswith("Write https:// in its URL, or take the password or token out of --http-config")
    assert "secret" not in line


@pytest.mark.parametrize(
    ("url", "may_carry"),
    [
        ("http://127.0.0.1:9780", True),
        ("http://[::1]:9780", True),
        ("http://localhost:9780", True),
        ("http://127.0.0.1.example.org:9780", False),
        ("http://[::1:9780", False),
    ],
)
def test_password_may_go_to_this_machine_without_tls(url, may_carry):
    assert may_carry_credentials(url) is may_carry


def serving(page):
    """Return a server without TLS that has this page."""
    app = web.Application()
    app.add_routes([web.get("/", page)])
    return TestServer(app)


async def test_token_is_sent_to_this_machine_without_tls(client_config):
    """`zmon up` has no TLS."""
    shown = []

    async def page(request):
        shown.append(request.headers["Authorization"])
        return web.json_response({})

    config = client_config(authorization={"credentials": "0123456789abcdef"})
    async with serving(page) as server, http_client.session(config) as session:
        await client.get(session, str(server.make_url("/")), dict, 2.0)
    assert shown == ["Bearer 0123456789abcdef"]


async def test_server_that_compresses_where_it_may_is_understood():
    """Alertmanager does. No answer is decompressed, so every request must say so."""

    async def page(request):
        response = web.json_response({"a": "b" * 9000})
        response.enable_compression()
        return response

    async with serving(page) as server, http_client.session() as session, session.get(server.make_url("/")) as answer:
        assert (await answer.json())["a"].startswith("bb")


def test_client_sessions_are_created_only_in_http_client_and_evidence():
    """Such a session uses no proxy, no .netrc, and decompresses nothing. The other one is for the socket of a rank."""
    files = [path for path in Path(zmon.__file__).parent.rglob("*.py") if "ClientSession(" in path.read_text()]
    assert {path.name for path in files} == {"http_client.py", "evidence.py"}
    assert all("auto_decompress=False" in path.read_text() for path in files)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"basic_aut": {}}, "unknown field `basic_aut`"),
        ({"basic_auth": {"username": "a"}, "authorization": {"credentials": "b"}}, "both basic_auth and authorization"),
        ({"tls_config": {"cert_file": "hub.pem"}}, "both cert_file and key_file"),
        ({"tls_config": {"ca_file": "none.pem"}}, "none.pem: No such file"),
        ({"follow_redirects": True}, "follow_redirects"),
    ],
)
def test_wrong_file_is_refused(client_config, keys, reason):
    with pytest.raises(UsageError, match=reason):
        client_config(**keys)


def test_server_that_is_configured_twice_is_refused(tmp_path):
    (tmp_path / "http.yaml").write_text("agents: {basic_auth: {username: a, password: b}}\nhub: {}\nagents: {}\n")
    with pytest.raises(UsageError, match="it is not YAML: agents is given twice, in line 3"):
        read_http_config(tmp_path / "http.yaml", "agents")
