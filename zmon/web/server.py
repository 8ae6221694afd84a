"""The HTTP server of a daemon: it answers with JSON and pages, on loopback unless `--public` allows more."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from zmon.errors import PartFailed, UsageError
from zmon.plain import plain_lines
from zmon.schema.api import Endpoint, Problem
from zmon.web.connections import Connections, HttpConnection, send, send_in_time
from zmon.web.guard import add_headers, guard
from zmon.web.log_rate import limit_logs
from zmon.web.open_files import LIMITS
from zmon.web.query import read_request
from zmon.web.refusal import Refusal

log = logging.getLogger("zmon.web")

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")


def application(allowed_hosts: Collection[str] = ()) -> web.Application:
    """Return the application of a daemon, without routes. It refuses web pages of other sites (`guard`).

    `allowed_hosts`: names under which clients reach this daemon, beside its address and its host name.
    """
    app = web.Application(middlewares=[send_in_time, guard(allowed_hosts)])  # type: ignore[list-item]
    app.on_response_prepare.append(add_headers)
    return app


def route(
    endpoint: Endpoint[Request, Answer],
    handler: Callable[[Request], Awaitable[Answer]],
    status: Callable[[Answer], int] = lambda _: 200,
    turn: Callable[[Request], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
) -> web.RouteDef:
    """Return the route of an endpoint.

    `handler` takes the typed request and returns the typed answer, or raises Refusal. `status` returns the HTTP status
    of an answer. `turn` is held from before the handler is called until the client has the answer; large answers wait
    there for each other.
    """

    async def answer(request: web.Request) -> web.Response:
        typed = read_request(endpoint, request)
        try:
            async with turn(typed):
                value = await handler(typed)
                response = json_response(value, status(value))
                await send(request, response)
                return response
        except Refusal as refusal:
            return problem(str(refusal), refusal.status)

    return web.get(endpoint.path, answer)


def json_response(value: Any, status: int = 200) -> web.Response:
    """Return a response with `value` as JSON. NaN becomes null, since JSON has no NaN.

    Text is made plain where it enters. Should some text still not be UTF-8, it is replaced here: one wrong byte must
    not hide all other answers.
    """
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        body = msgspec.json.encode(_encodable(msgspec.to_builtins(value, str_keys=True)))
        log.warning("an answer has text that is not UTF-8, which is a defect of zmon: it is replaced")
    return web.Response(body=body, content_type="application/json", status=status)


def _encodable(value: Any) -> Any:
    """Return plain data whose texts can all be encoded."""
    if isinstance(value, str):
        return plain_lines(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list | tuple) else value


def problem(line: str, status: int) -> web.Response:
    """Return an error response: JSON with one line."""
    return json_response(Problem(line), status)


def check_bind(host: str, public: bool) -> None:
    """Check that a daemon does not listen beyond this machine by accident. Raises UsageError."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not public:
        raise UsageError(
            f"refusing to listen on {host}",
            "the pages have neither TLS nor a password, so anybody on that network could read them",
            "listen on 127.0.0.1, or add --public if the network is trusted",
        )


async def serve(app: web.Application, host: str, port: int, name: str, most: int = LIMITS.most) -> None:
    """Serve until SIGTERM or SIGINT. Raises PartFailed if it cannot listen, for example because the port is taken.

    `most`: how many connections may be open.
    """
    connections = Connections(most)
    limit_logs()
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    server = runner.server
    assert server is not None
    loop = asyncio.get_running_loop()
    try:
        accepting = await loop.create_server(
            lambda: HttpConnection(server, connections), host, port, reuse_address=True, backlog=LIMITS.accepted_at_once
        )
    except OSError as error:
        await runner.cleanup()
        raise PartFailed(
            f"zmon {name} cannot listen on {host}:{port}",
            "the port is taken" if error.errno == 98 else str(error.strerror or error),
            f"choose another port with --port, or end the process that uses it (ss -ltnp 'sport = :{port}')",
        ) from error
    for listening in accepting.sockets:
        with listening.dup() as same:
            same.listen(LIMITS.backlog)  # asyncio has one number for both, see ConnectionLimits
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"zmon {name} listens on http://{host}:{port}", flush=True)
    try:
        await stop.wait()
    finally:
        accepting.close()
        await runner.cleanup()


__all__ = ["Refusal", "application", "check_bind", "json_response", "problem", "route", "send", "serve"]
