"""Starts a daemon from the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp.web

from zmon.cli import log_format
from zmon.web import server


def serve(name: str, bind: str, public: bool, port: int, make: Callable[[], aiohttp.web.Application]) -> None:
    """Serve HTTP until SIGTERM or SIGINT.

    Raises UsageError if `bind` is not a loopback address and `public` is false.
    """
    server.check_bind(bind, public)
    log_format.configure()

    async def run() -> None:
        await server.serve(make(), bind, port, name)

    asyncio.run(run())
