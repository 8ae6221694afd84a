"""Tests of the guard: a web page from elsewhere gets no answer, programs do."""

import asyncio
import os

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from zmon.web.guard import names_this_machine
from zmon.web.server import application


def ask(allowed_hosts=(), path="/metrics", **headers):
    """Return the status of an answer and its headers."""

    async def page(request):
        return web.Response(text="up 1\n")

    async def main():
        app = application(allowed_hosts)
        app.router.add_get("/metrics", page)
        async with TestClient(TestServer(app)) as client:
            headers.update({name: text.format(port=client.port) for name, text in headers.items()})
            async with client.get(path, headers=headers) as answer:
                return answer.status, answer.headers

    return asyncio.run(main())


def test_request_of_a_program_is_answered():
    assert ask()[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "evil", "http://[::1"])
def test_page_of_another_site_is_refused(origin):
    assert ask(Host="127.0.0.1:{port}", Origin=origin)[0] == 403


def test_page_of_this_server_is_answered():
    assert ask(Host="127.0.0.1:{port}", Origin="http://127.0.0.1:{port}")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9781", "127.0.0.1.evil.example", "[::1", "0x7f.1"])
def test_name_of_a_web_site_is_refused(host):
    assert ask(Host=host)[0] == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9781", "[::1]:9781", "10.0.0.7:9781", "localhost:9781", "node-1", "zmon-hub:9781",
             os.uname().nodename]
)  # fmt: skip
def test_address_or_name_of_this_machine_is_answered(host):
    assert ask(Host=host)[0] == 200


def test_allowed_name_is_answered():
    assert names_this_machine("zmon.cluster.example:9781", ["Zmon.cluster.example"])
    assert not names_this_machine("other.cluster.example", ["zmon.cluster.example"])
    assert ask(["zmon.cluster.example"], Host="zmon.cluster.example")[0] == 200


@pytest.mark.parametrize(("path", "status"), [("/metrics", 200), ("/nothing", 404)])
def test_browser_must_not_guess_the_type_of_an_answer(path, status):
    answer, headers = ask(path=path)
    assert answer == status
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
