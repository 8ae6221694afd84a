"""How a daemon answers: JSON and pages over HTTP, on loopback unless somebody asked for more by name."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from zmon.errors import PartFailed, UsageError


def json_response(value: Any, status: int = 200) -> web.Response:
    """Any record, or a dictionary of them, as JSON; NaN becomes null, as JSON knows none."""
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def problem(line: str, status: int) -> web.Response:
    """An error as one line in JSON."""
    return json_response({"schema": 1, "error": line}, status)


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


def number_argument(query: Mapping[str, str], name: str, default: float) -> float:
    """A number from a query string. Raises web.HTTPBadRequest with one line."""
    try:
        number = float(query.get(name, default))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise web.HTTPBadRequest(text=f"{name}={query[name]!r} is not a number\n")
    return number
