"""Tests of the dashboard's requests to a hub with TLS and users."""

import asyncio
import zlib

import bcrypt
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from dashboards import http_requests
from dashboards.armed import run_checks
from dashboards.http_options import HttpOptions, http_options
from tests.web.certificates import OPTIONAL, Certificates, live_config
from tests.web.serving import running_server
from zmon.schema.http_config import VARIABLE

OURS = {"ca_file": "ca.pem"}
PASSWORD = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.fixture
def secured(tmp_path):
    certificates = Certificates(tmp_path)
    certificates.issue("server", "127.0.0.1")
    certificates.issue("dashboard", "dashboard.example.org")
    roles = [
        {"user": "ann", "roles": ["metrics"]},
        {"client_san": "dashboard.example.org", "roles": ["metrics"]},
        {"token_file": "token", "roles": ["metrics"]},
    ]
    (tmp_path / "token").write_text("0123456789abcdef\n")
    return live_config(tmp_path, tls_server_config=OPTIONAL, basic_auth_users={"ann": PASSWORD}, zmon_roles=roles)


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Return a function that writes the file in ZMON_HTTP_CONFIG; keys are written as YAML."""

    def write(content):
        file = tmp_path / "http.yaml"
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        monkeypatch.setenv(VARIABLE, str(file))

    return write


def answer_or_error(url):
    """Return what the dashboard gets from a hub at this URL, or the line of the error."""
    try:
        return http_requests.fetch(http_requests.Source("hub", "The hub", "ZMON_HUB_URL", url, "no hub"), "/metrics")
    except http_requests.Unreachable as error:
        return str(error)


async def answer_with_tls(live):
    """Return the same of a hub with TLS and users."""
    async with running_server(live=live) as server:
        return await asyncio.to_thread(answer_or_error, f"https://127.0.0.1:{server.port}")


def test_hub_and_prometheus_are_shown_what_their_sections_have(configure):
    hub = {"basic_auth": {"username": "ann", "password": "a"}}
    configure({"hub": hub, "prometheus": {"authorization": {"credentials": "b"}}})
    assert http_options("hub") == HttpOptions(auth=("ann", "a"))
    assert http_options("prometheus") == HttpOptions(headers={"Authorization": "Bearer b"})


@pytest.mark.parametrize(("url", "keys"), [
    ("http://hub.example.org:9781", {"hub": {"basic_auth": {"username": "ann", "password": "secret"}}}),
    ("http://ann:secret@hub.example.org:9781", {}),
])  # fmt: skip
def test_password_is_not_sent_without_tls_beyond_this_machine(configure, url, keys):
    configure(keys)
    error = answer_or_error(url)
    assert "is not asked: without TLS, anybody" in error
    assert "secret" not in error


def served(monkeypatch, answer):
    """Return what the dashboard gets from a hub with this answer to a request, or the line of the error."""

    async def main():
        app = web.Application()
        app.router.add_get("/metrics", answer)
        async with TestServer(app) as server:
            return await asyncio.to_thread(answer_or_error, str(server.make_url("")).rstrip("/"))

    monkeypatch.delenv(VARIABLE, raising=False)
    return asyncio.run(main())


def test_proxy_and_netrc_of_the_environment_are_not_used(tmp_path, monkeypatch):
    """A proxy would see the password for the hub, and .netrc replaces a token by its own password."""
    (tmp_path / "netrc").write_text("default login ann password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    async def answer(request):
        return web.json_response(request.headers.get("Authorization"))

    assert served(monkeypatch, answer) == b"null"


def test_answer_that_is_compressed_or_too_long_is_not_read(monkeypatch):
    async def compressed(request):
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=zlib.compress(bytes(1 << 20)), headers={"Content-Encoding": "deflate"})

    async def long(request):
        return web.Response(body=bytes(1000))

    assert "answered with an encoding that was not asked for" in served(monkeypatch, compressed)
    assert served(monkeypatch, long) == bytes(1000)
    monkeypatch.setattr(http_requests, "MAX_ANSWER_BYTES", 999)
    assert "answered with more than 0 MiB" in served(monkeypatch, long)


HUBS = {
    "password": {"hub": {"basic_auth": {"username": "ann", "password": "secret"}}, "tls_config": OURS},
    "token": {"hub": {"authorization": {"credentials_file": "token"}}, "tls_config": OURS},
    "certificate": {"tls_config": OURS | {"cert_file": "dashboard.pem", "key_file": "dashboard.key"}},
}


@pytest.mark.parametrize("keys", HUBS.values(), ids=HUBS)
async def test_hub_with_tls_and_users_is_asked(secured, configure, keys):
    configure(keys)
    assert await answer_with_tls(secured) == b"up 1\n"


@pytest.mark.parametrize("keys", HUBS.values(), ids=HUBS)
async def test_page_armed_asks_a_hub_with_tls_and_users_as_the_other_pages_do(secured, configure, keys):
    configure(keys)
    async with running_server(max_connections=32, live=secured) as server:
        url = f"https://127.0.0.1:{server.port}"
        checks = await asyncio.to_thread(run_checks, url, url)
    assert "answered 403: this needs the role read" in next(check for check in checks if check.name == "hub").result


@pytest.mark.parametrize("text", ["hub: {secret", "secret: 1\nsecret: 2"], ids=["half a mapping", "a key twice"])
def test_page_armed_says_that_the_file_is_unusable_and_repeats_nothing_of_it(configure, text):
    configure(text)
    (check,) = run_checks("http://127.0.0.1:1", "http://127.0.0.1:1")
    reason = "it is not YAML, or a key is given twice"
    assert check.result == f"cannot be asked: the file in ZMON_HTTP_CONFIG is unusable: {reason}"
    assert check.next_step == "docs/deploy/security.md has all keys."


def test_page_armed_says_that_a_certificate_cannot_be_read(configure):
    configure({"tls_config": {"ca_file": "none.pem"}})
    (check,) = run_checks("https://127.0.0.1:1", "https://127.0.0.1:2")
    assert check.armed is False
    assert "none.pem" in check.result
    assert check.next_step


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({}, "does not trust"),
        ({"tls_config": OURS}, "wants a password, a token or a certificate"),
        ({"hub": {"basic_auth": {"username": "ann", "password": "x"}}, "tls_config": OURS}, "wants a password"),
        ({"basic_auth": {"username": "ann", "password": "x"}}, "write it below one of hub:, prometheus:"),
        ({"basic": {}}, "unknown field `basic`"),
        ({"tls_config": OURS | {"server_name": "hub"}}, "cannot use server_name"),
        ({"hub": {"authorization": {"credentials_file": "none"}}}, "No such file"),
    ],
)
async def test_page_says_in_one_line_what_is_missing(secured, configure, keys, line):
    configure(keys)
    assert line in await answer_with_tls(secured)
