"""The HTTP server of a daemon: it answers with JSON and pages, with TLS and roles if `--web.config.file` has them."""

from __future__ import annotations

import asyncio
import errno
import math
import signal
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from zmon.errors import PartFailed, UsageError
from zmon.schema.api import Endpoint, endpoints
from zmon.schema.api.endpoint import MAX_REQUEST_BYTES
from zmon.schema.api.packed import CONTENT_TYPE
from zmon.schema.api.received import Undecodable, decode
from zmon.schema.http_config import is_loopback
from zmon.web.access import check_access
from zmon.web.connections import BODY_SECONDS, Connections, HttpConnection, send, send_in_time
from zmon.web.guard import add_headers, guard
from zmon.web.handshake import Handshake
from zmon.web.limits import ACCEPTED_AT_ONCE, BACKLOG, MAX_CONNECTIONS, limit_logs
from zmon.web.live_config import LiveConfig
from zmon.web.responses import Refusal, json_response, problem

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")
_FALSE = ("", "0", "false")  # other values are true; a client generated from openapi.json writes `true` or `false`
_SHUTDOWN_SECONDS = 1.0  # for requests that are being answered


def application(
    allowed_hosts: Collection[str] = (), live: LiveConfig | None = None, is_ready: Callable[[], bool] = lambda: True
) -> web.Application:
    """Return the application of a daemon, with no routes but `/livez` and `/readyz`.

    It refuses web pages of other sites (`guard`), and requests without the role of their path (`check_access`).
    `allowed_hosts`: names under which clients reach this daemon, beside its address and its host name. `live`: the file
    of `--web.config.file`, if there is one. `is_ready` returns True once the daemon has data to answer with.
    """
    check_roles = check_access(lambda: live.access if live else None, endpoints.ROLES)
    check_origin = guard(allowed_hosts, authenticates=lambda: live is not None and live.access is not None)
    app = web.Application(middlewares=[send_in_time, check_origin, check_roles])  # type: ignore[list-item]
    app.on_response_prepare.append(add_headers)
    if live is not None:
        app.on_response_prepare.append(partial(_add_configured_headers, live))

    async def is_live(request: web.Request) -> web.Response:
        return web.Response()

    async def is_ready_now(request: web.Request) -> web.Response:
        return web.Response(status=200 if is_ready() else 503)

    app.add_routes([web.get("/livez", is_live), web.get("/readyz", is_ready_now)])
    return app


async def _add_configured_headers(live: LiveConfig, request: web.Request, response: web.StreamResponse) -> None:
    for name, value in msgspec.to_builtins(live.config.http_server_config.headers).items():
        response.headers.setdefault(name, value)
    connection = request.protocol
    if live.has_tls and isinstance(connection, HttpConnection) and connection.context is not live.context():
        response.force_close()  # its client must show its certificate again


def route(
    endpoint: Endpoint[Request, Answer],
    handler: Callable[[Request], Awaitable[Answer]],
    status: Callable[[Answer], int] = lambda _: 200,
    turn: Callable[[Request], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
    packed: Callable[[Request, Answer], bytes] | None = None,
) -> web.RouteDef:
    """Return the route of an endpoint.

    `handler` takes the typed request and returns the typed answer, or raises Refusal. `status` returns the HTTP status
    of an answer. The context manager that `turn` returns is entered before the handler is called, and left when the
    client has the answer: endpoints of large answers share one, so that they answer one after the other. `packed`
    returns the body for a client that accepts a packed report.
    """

    async def answer(request: web.Request) -> web.Response:
        try:
            typed = await read_request(endpoint, request)
            async with turn(typed):
                value = await handler(typed)
                if packed is not None and request.headers.get("Accept") == CONTENT_TYPE:
                    response = web.Response(body=packed(typed, value), content_type=CONTENT_TYPE)
                else:
                    response = json_response(value, status(value))
                await send(request, response)
                return response
        except Refusal as refusal:
            return problem(str(refusal), refusal.status)

    return web.route(endpoint.method, endpoint.path, answer)


async def read_request(endpoint: Endpoint[Request, Any], request: web.Request) -> Request:
    """Return the request in a body, or in a URL. Raises Refusal."""
    return await _from_body(endpoint, request) if endpoint.method == "POST" else _from_url(endpoint, request)


async def _from_body(endpoint: Endpoint[Request, Any], request: web.Request) -> Request:
    """Return the request in a body. Raises Refusal."""
    if request.content_type != "application/json":  # a browser asks first if a page of another site may send this type
        raise Refusal(415, "the body must have the type application/json")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            # At the limit it reads 0 bytes, which ends the loop.
            while part := await request.content.read(MAX_REQUEST_BYTES + 1 - len(body)):
                body += part
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
    if len(body) > MAX_REQUEST_BYTES:
        raise Refusal(413, f"the body is longer than {MAX_REQUEST_BYTES:,} bytes")
    try:
        return decode(body, endpoint.request)
    except Undecodable as error:
        raise Refusal(400, f"the body is not a request: {error}") from error


def _from_url(endpoint: Endpoint[Request, Any], request: web.Request) -> Request:
    """Return the request in a URL, with defaults for missing parameters. Raises Refusal."""
    values: dict[str, Any] = {name: request.match_info[name] for name in endpoint.in_path}
    for field in msgspec.structs.fields(endpoint.request):
        name = field.encode_name
        if name not in request.query or field.name in endpoint.in_path:
            continue
        if isinstance(field.default, bool):
            values[field.name] = request.query[name].lower() not in _FALSE
        elif isinstance(field.default, int | float):
            values[field.name] = _number(request.query, name, type(field.default))
        elif isinstance(field.default, tuple):
            values[field.name] = tuple(request.query.getall(name))
        else:
            values[field.name] = request.query[name]
    return endpoint.request(**values)


def _number(query: Mapping[str, str], name: str, kind: type[int] | type[float]) -> float:
    try:
        if math.isfinite(float(query[name])):
            return kind(query[name])
    except ValueError:
        pass
    raise Refusal(400, f"{name}={query[name]!r} is not {'an integer' if kind is int else 'a number'}")


def check_bind(host: str, live: LiveConfig | None, insecure: bool) -> None:
    """Check that a daemon beyond this machine has TLS and authentication, unless `insecure`. Raises UsageError."""
    if is_loopback(host) or insecure:
        return
    missing = [] if live and live.has_tls else ["TLS"]
    missing += [] if live and live.access else ["users, tokens or client certificates"]
    if missing:
        raise UsageError(
            f"refusing to listen on {host}",
            f"without {' and '.join(missing)}, anybody on that network could read the pages",
            "Give a --web.config.file (docs/deploy/security.md), listen on 127.0.0.1, or add --insecure-public",
        )


async def serve(
    app: web.Application,
    host: str,
    port: int,
    name: str,
    max_connections: int = MAX_CONNECTIONS,
    live: LiveConfig | None = None,
    sock: socket.socket | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises PartFailed if it cannot listen, for example because the port is taken.

    SIGHUP reads the files of `live` again. `sock` listens already, at `host` and `port`.
    """
    connections = Connections(max_connections)
    limit_logs()
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    server = runner.server
    assert server is not None
    tls = live if live is not None and live.has_tls else None  # a reload does not switch TLS on or off

    def connection() -> asyncio.Protocol:
        http = HttpConnection(server, connections)
        return http if tls is None else Handshake(http, connections, tls)

    address = {"host": host, "port": port, "reuse_address": True} if sock is None else {"sock": sock}
    try:
        accepting = await _listen(connection, address)
    except OSError as error:
        await runner.cleanup()
        raise PartFailed(
            f"zmon {name} cannot listen on {host}:{port}",
            "the port is taken" if error.errno == errno.EADDRINUSE else str(error.strerror or error),
            f"choose another port with --port, or end the process that uses it (ss -ltnp 'sport = :{port}')",
        ) from error
    stop = _handle_signals(live)
    print(f"zmon {name} listens on {'http' if tls is None else 'https'}://{host}:{port}", flush=True)
    try:
        await stop.wait()
    finally:
        accepting.close()
        await runner.cleanup()


async def _listen(connection: Callable[[], asyncio.Protocol], address: Mapping[str, Any]) -> asyncio.Server:
    """Listen. asyncio has one number for `ACCEPTED_AT_ONCE` and `BACKLOG`, so the backlog is raised afterwards."""
    accepting = await asyncio.get_running_loop().create_server(connection, backlog=ACCEPTED_AT_ONCE, **address)
    for listening in accepting.sockets:
        with listening.dup() as same:
            same.listen(BACKLOG)
    return accepting


def _handle_signals(live: LiveConfig | None) -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set. SIGHUP reads the files of `live` again."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Without a handler SIGHUP would end a daemon that has no such files.
    loop.add_signal_handler(signal.SIGHUP, live.reload if live is not None else lambda: None)
    return stop
