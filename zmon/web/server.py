"""How a daemon answers: JSON and pages over HTTP, on loopback unless somebody asked for more by name."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from zmon.errors import PartFailed, UsageError
from zmon.schema.api import Endpoint, Problem
from zmon.web.query import read_request

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")


class Refusal(Exception):
    """A handler has no answer: the status and one line why."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def route(
    endpoint: Endpoint[Request, Answer],
    handler: Callable[[Request], Awaitable[Answer]],
    status: Callable[[Answer], int] = lambda _: 200,
) -> web.RouteDef:
    """Have a handler answer an endpoint: it takes the typed request and returns the typed answer, or raises Refusal."""

    async def answer(request: web.Request) -> web.Response:
        try:
            value = await handler(read_request(endpoint, request))
        except Refusal as refusal:
            return problem(str(refusal), refusal.status)
        return json_response(value, status(value))

    return web.get(endpoint.path, answer)


def json_response(value: Any, status: int = 200) -> web.Response:
    """An answer as JSON; NaN becomes null, as JSON knows none."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def problem(line: str, status: int) -> web.Response:
    """An error as one line in JSON."""
    return json_response(Problem(line), status)


def check_bind(host: str, public: bool) -> None:
    """Refuse to listen beyond this machine by accident. Raises UsageError."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not public:
        raise UsageError(
            f"refusing to listen on {host}",
            "the pages have neither TLS nor a password, and anybody on that network could read them",
            "listen on 127.0.0.1, or say --public if the network is trusted",
        )


async def serve(app: web.Application, host: str, port: int, name: str) -> None:
    """Answer until SIGTERM or SIGINT. Raises PartFailed where the port is taken."""
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, reuse_address=True)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise PartFailed(
            f"zmon {name} cannot listen on {host}:{port}",
            "the port is taken" if error.errno == 98 else str(error.strerror or error),
            f"choose another with --port, or end what holds it (ss -ltnp 'sport = :{port}')",
        ) from error
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"zmon {name} listens on http://{host}:{port}", flush=True)
    await stop.wait()
    await runner.cleanup()
