"""Tests of the HTTP client. It returns a typed answer, or raises an error of a single line."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from tests.build import agent_report, rank_state
from zmon.errors import NotServed, Unreachable
from zmon.schema.api import SnapshotRequest, endpoints
from zmon.web import client
from zmon.web.server import json_response


def ask_client(handler, timeout=0.3):
    """Return what the client decodes from a server's answer."""

    async def main():
        app = web.Application()
        app.router.add_get("/api/v1/snapshot", handler)
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            return await client.ask(
                session, str(server.make_url("")).rstrip("/"), endpoints.SNAPSHOT, SnapshotRequest(7, about=8), timeout
            )

    return asyncio.run(main())


async def answer_late(request):
    await asyncio.sleep(1)


async def answer_500(request):
    return web.Response(status=500, text="it broke")


async def answer_html(request):
    return web.Response(text="<html>a proxy's page</html>")


async def abort_connection(request):
    request.transport.abort()


@pytest.mark.parametrize(
    ("handler", "line"),
    [(answer_late, "did not answer within 0.3 s"), (answer_500, "answered 500: it broke"),
     (answer_html, "cannot understand"), (abort_connection, "cannot reach")],
    ids=["late", "broken", "page", "cut"],
)  # fmt: skip
def test_failed_request_raises_a_single_line(handler, line):
    with pytest.raises(Unreachable) as caught:
        ask_client(handler)
    assert line in str(caught.value)
    assert "/api/v1/snapshot" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refused_connection_raises_unreachable():
    async def main():
        async with aiohttp.ClientSession() as session:
            await client.ask(session, f"http://127.0.0.1:{unused_port()}", endpoints.SNAPSHOT, SnapshotRequest(), 1.0)

    with pytest.raises(Unreachable, match="cannot reach"):
        asyncio.run(main())


def test_report_is_decoded_unchanged():
    sent = agent_report(rank_state(0), rank_state(1), cursor=9)

    async def handler(request):
        assert request.query["since"] == "7"
        return json_response(sent)

    assert ask_client(handler) == sent


def test_missing_page_raises_not_served_and_a_failure_does_not():
    async def answer_404(request):
        raise web.HTTPNotFound

    with pytest.raises(NotServed):
        ask_client(answer_404)
    with pytest.raises(Unreachable) as caught:
        ask_client(answer_500)
    assert not isinstance(caught.value, NotServed)


def test_refused_evidence_is_unknown_with_the_reason():
    async def refuse(request):
        return web.Response(status=403, text="not you")

    async def main():
        app = web.Application()
        app.router.add_get("/api/v1/evidence/{job_id}/{rank}", refuse)
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            url = str(server.make_url("")).rstrip("/")
            return await client.evidence(session, [(rank_state(0), url)], (), 5.0, 1)

    (answer,) = asyncio.run(main()).values()
    assert "gives evidence only to the user of the job, root and --hub-user, over loopback" in answer.reason
