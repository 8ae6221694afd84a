"""Tests of the HTTP client. It returns a typed answer, or raises an error of a single line."""

import asyncio
import zlib
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

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
    """Answer nothing while the client waits."""
    await asyncio.sleep(1)


async def answer_garbage(request):
    """Answer with bytes that are no HTTP."""
    request.transport.write(b"HTTP/1.1 200 \x1b[2J secret\r\nX\x00: secret\r\n\r\n")
    request.transport.close()
    await asyncio.sleep(1)


async def abort_connection(request):
    """Break the connection."""
    request.transport.abort()


def answering(content=b"", status=200, **headers):
    """Return a handler with this answer."""

    async def answer(request):
        return web.Response(body=content, status=status, headers=headers)

    return answer


COMPRESSED = zlib.compress(b" " * (1 << 20))
NOT_ASKED_FOR, NOT_UNDERSTOOD = "encoding that was not asked for", "cannot understand"
ANSWERS = {  # what a server does, and a part of the line of the error
    "late": (answer_late, "did not answer within 0.3 s"),
    "cut": (abort_connection, "cannot reach"),
    "not HTTP": (answer_garbage, "cannot reach"),
    "broken": (answering(b"secret of another server\n", 500), "answered 500"),
    # An agent must not make the hub ask a URL inside the hub's network.
    "redirect": (answering(status=302, Location="/api/v1/snapshot?internal=1"), "answered 302"),
    "page": (answering(b"<html>a proxy's secret page</html>"), NOT_UNDERSTOOD),
    "empty": (answering(), NOT_UNDERSTOOD),
    "nested too deeply": (answering(b"[" * 100_000), NOT_UNDERSTOOD),
    "cut in a character": (answering(b'{"host": "\xff'), NOT_UNDERSTOOD),
    "half of a surrogate pair": (answering(b'{"host": "\\ud800"}'), NOT_UNDERSTOOD),
    "another encoding": (answering(b"\xff\xfe"), NOT_UNDERSTOOD),
    "gzip": (answering(COMPRESSED, **{"Content-Encoding": "gzip"}), NOT_ASKED_FOR),
    "deflate": (answering(COMPRESSED, **{"Content-Encoding": "deflate"}), NOT_ASKED_FOR),
    "br": (answering(COMPRESSED, **{"Content-Encoding": "br"}), NOT_ASKED_FOR),
}


@pytest.mark.parametrize(("handler", "line"), ANSWERS.values(), ids=ANSWERS)
async def test_answer_that_is_no_report_is_unreachable_and_not_repeated(handler, line):
    with pytest.raises(Unreachable, match=line) as caught:
        await ask_client(handler, timeout=0.3 if handler is answer_late else 5.0)
    assert type(caught.value) is Unreachable
    assert "/api/v1/snapshot" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_missing_page_is_not_served():
    with pytest.raises(NotServed):
        await ask_client(answering(status=404))


def test_password_is_sent_as_basic_authentication():
    assert client.basic_auth("zmon", "secret") == {"Authorization": "Basic em1vbjpzZWNyZXQ="}


INVALID = "it is not a valid URL"


@pytest.mark.parametrize(
    ("base", "line"),
    [
        ("http://127.0.0.1:1", "cannot reach"),  # no server listens there
        ("http://node-1:99999", INVALID),
        ("node-1:9781", INVALID),
        ("http://", INVALID),
        ("http://[node-1", INVALID),
    ],
)
async def test_url_that_cannot_be_asked_is_unreachable(base, line):
    with pytest.raises(Unreachable, match=line):
        await ask_at(base)


async def test_report_is_decoded_unchanged():
    sent = agent_report(rank_state(0), rank_state(1), cursor=9)

    async def handler(request):
        assert request.query["since"] == "7"
        assert request.headers["Accept-Encoding"] == "identity"
        return json_response(sent)

    assert await ask_client(handler) == sent


async def test_line_of_a_daemon_is_shown_in_plain_text():
    async def refuse(request):
        return problem("cannot read the boxes\n\x1b[2Jforged", 503)

    with pytest.raises(Unreachable) as caught:
        await ask_client(refuse)
    assert str(caught.value).endswith("answered 503: cannot read the boxes \\x1b[2Jforged")


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


async def test_refused_evidence_is_unknown_with_the_reason():
    async def refuse(request):
        return problem("evidence is only for the user of the job", 403)

    app = web.Application()
    app.router.add_get("/api/v1/evidence/{job_id}/{rank}", refuse)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("")).rstrip("/")
        targets = [(rank_state(0), url)]
        answers = await client.evidence(session, targets, stacks=(), seconds=5.0, concurrency=1)
    (answer,) = answers.values()
    assert answer.reason.endswith("answered 403: evidence is only for the user of the job")
