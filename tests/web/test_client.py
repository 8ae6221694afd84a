"""Tests of the HTTP client. It returns a typed answer, or raises an error of a single line."""

import asyncio
import zlib
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from tests.build import agent_report, rank_state
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.web import client
from zmon.web.responses import json_response, problem


async def ask_client(handler, timeout=0.3):
    """Return what the client decodes from a server's answer."""
    app = web.Application()
    app.router.add_get("/api/v1/snapshot", handler)
    async with TestServer(app) as server:
        return await ask_at(str(server.make_url("")).rstrip("/"), timeout)


async def ask_at(url, timeout=1.0):
    """Return what the client decodes from the answer of this URL."""
    async with aiohttp.ClientSession() as session:
        return await client.ask(session, url, endpoints.SNAPSHOT, SnapshotRequest(7, about=8), timeout)


async def answer_late(request):
    await asyncio.sleep(1)


async def answer_500(request):
    return web.Response(status=500, text="secret of another server\n")


async def answer_html(request):
    return web.Response(text="<html>a proxy's secret page</html>")


async def answer_garbage(request):
    request.transport.write(b"HTTP/1.1 200 \x1b[2J secret\r\nX\x00: secret\r\n\r\n")
    request.transport.close()
    await asyncio.sleep(1)


async def abort_connection(request):
    request.transport.abort()


ANSWERS = {
    "late": (answer_late, "did not answer within 0.3 s"),
    "broken": (answer_500, "answered 500"),
    "page": (answer_html, "cannot understand"),
    "cut": (abort_connection, "cannot reach"),
    "not HTTP": (answer_garbage, "cannot reach"),
}


@pytest.mark.parametrize(("handler", "line"), ANSWERS.values(), ids=ANSWERS)
async def test_failed_request_raises_a_single_line(handler, line):
    with pytest.raises(Unreachable) as caught:
        await ask_client(handler)
    assert line in str(caught.value)
    assert "/api/v1/snapshot" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_password_is_sent_as_basic_authentication():
    assert client.basic_auth("zmon", "secret") == {"Authorization": "Basic em1vbjpzZWNyZXQ="}


async def test_refused_connection_raises_unreachable():
    with pytest.raises(Unreachable, match="cannot reach"):
        await ask_at(f"http://127.0.0.1:{unused_port()}")


@pytest.mark.parametrize("base", ["http://node-1:99999", "node-1:9781", "http://", "http://[node-1"])
async def test_invalid_url_is_named_as_such(base):
    with pytest.raises(Unreachable, match="it is not a valid URL"):
        await ask_at(base)


async def test_report_is_decoded_unchanged():
    sent = agent_report(rank_state(0), rank_state(1), cursor=9)

    async def handler(request):
        assert request.query["since"] == "7"
        return json_response(sent)

    assert await ask_client(handler) == sent


async def test_only_a_missing_page_raises_not_served():
    async def answer_404(request):
        raise web.HTTPNotFound

    with pytest.raises(NotServed):
        await ask_client(answer_404)
    with pytest.raises(Unreachable) as caught:
        await ask_client(answer_500)
    assert not isinstance(caught.value, NotServed)


async def test_line_of_a_daemon_is_shown_in_plain_text():
    async def refuse(request):
        return problem("cannot read the boxes\n\x1b[2Jforged", 503)

    with pytest.raises(Unreachable) as caught:
        await ask_client(refuse)
    assert str(caught.value).endswith("answered 503: cannot read the boxes \\x1b[2Jforged")


async def test_redirect_is_not_followed():
    """An agent must not make the hub ask a URL inside the hub's network."""
    queries = []

    async def redirect(request):
        queries.append(request.query_string)
        raise web.HTTPFound("/api/v1/snapshot?internal=1")

    with pytest.raises(Unreachable, match="answered 302"):
        await ask_client(redirect)
    assert len(queries) == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
async def test_compressed_answer_is_refused(encoding):
    async def compress(request):
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=zlib.compress(b" " * (1 << 20)), headers={"Content-Encoding": encoding})

    with pytest.raises(Unreachable, match="encoding that was not asked for"):
        await ask_client(compress)


async def test_long_answer_is_read_only_up_to_its_limit(monkeypatch):
    sent = 0

    async def stream(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 64 << 20:
            await response.write(b" " * (1 << 20))
            sent += 1 << 20
        return response

    short = replace(endpoints.SNAPSHOT, max_bytes=2 << 20)
    monkeypatch.setattr(endpoints, "SNAPSHOT", short)
    with pytest.raises(Unreachable, match="more than 2 MiB"):
        await ask_client(stream, timeout=5.0)
    assert sent < 32 << 20, "the client read on"


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"host": "\xff', b'{"host": "\\ud800"}', b"\xff\xfe", b""])
async def test_any_body_that_is_no_report_is_unreachable(body):
    async def answer(request):
        return web.Response(body=body)

    with pytest.raises(Unreachable, match="cannot understand"):
        await ask_client(answer)


async def test_refused_evidence_is_unknown_with_the_reason():
    async def refuse(request):
        return problem("evidence is only for the user of the job", 403)

    app = web.Application()
    app.router.add_get("/api/v1/evidence/{job_id}/{rank}", refuse)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("")).rstrip("/")
        (answer,) = (await client.evidence(session, [(rank_state(0), url)], (), 5.0, 1)).values()
    assert answer.reason.endswith("answered 403: evidence is only for the user of the job")
