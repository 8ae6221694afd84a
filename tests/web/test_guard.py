"""Tests of the guard: a web page from elsewhere gets no answer, programs do."""

import os

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from zmon.web.guard import names_this_machine, search_domains
from zmon.web.server import application


async def ask(allowed_hosts=(), path="/metrics", **headers):
    """Return the status and the headers of the answer to a request with these headers."""

    async def page(request):
        return web.Response(text="up 1\n")

    app = application(allowed_hosts)
    app.router.add_get("/metrics", page)
    async with TestClient(TestServer(app)) as client:
        headers.update({name: text.format(port=client.port) for name, text in headers.items()})
        async with client.get(path, headers=headers) as answer:
            return answer.status, answer.headers


async def status(*allowed_hosts, **headers):
    """Return the status of the answer to a request with these headers."""
    code, _ = await ask(allowed_hosts, **headers)
    return code


async def test_request_of_a_program_is_answered():
    assert await status() == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "evil", "http://[::1"])
async def test_page_of_another_site_is_refused(origin):
    assert await status(Host="127.0.0.1:{port}", Origin=origin) == 403


async def test_page_of_this_server_is_answered():
    assert await status(Host="127.0.0.1:{port}", Origin="http://127.0.0.1:{port}") == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9781", "127.0.0.1.evil.example", "[::1", "0x7f.1"])
async def test_name_of_a_web_site_is_refused(host):
    assert await status(Host=host) == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9781", "[::1]:9781", "10.0.0.7:9781", "localhost:9781", "node-1", "zmon-hub:9781",
             os.uname().nodename]
)  # fmt: skip
async def test_address_or_name_of_this_machine_is_answered(host):
    assert await status(Host=host) == 200


async def test_allowed_name_is_answered():
    assert names_this_machine("zmon.cluster.example:9781", ["Zmon.cluster.example"])
    assert not names_this_machine("other.cluster.example", ["zmon.cluster.example"])
    assert await status("zmon.cluster.example", Host="zmon.cluster.example") == 200


def test_name_within_the_search_domains_of_this_machine_is_answered(tmp_path):
    (tmp_path / "resolv.conf").write_text("search svc.cluster.local Example.org. com\n# search x.y\n")
    domains = search_domains(tmp_path / "resolv.conf")
    assert domains == {"svc.cluster.local", "example.org"}
    assert names_this_machine("zmon-hub.monitoring.svc.cluster.local:9781", (), domains)
    assert names_this_machine("node-1.example.org", (), domains)
    for host in ("evil.com", "evilexample.org", "example.org.evil.com"):
        assert not names_this_machine(host, (), domains)
    assert search_domains(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(("path", "expected"), [("/metrics", 200), ("/nothing", 404)])
async def test_browser_must_not_guess_the_type_of_an_answer(path, expected):
    code, headers = await ask(path=path)
    assert code == expected
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
