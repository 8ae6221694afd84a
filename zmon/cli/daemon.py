"""Starts a daemon from the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp.web

from zmon.web import server


def serve(name: str, bind: str, public: bool, port: int, make: Callable[[], aiohttp.web.Application]) -> None:
    """Serve HTTP until SIGTERM or SIGINT.

    Raises UsageError if `bind` is not a loopback address and `public` is false.
    """
    server.check_bind(bind, public)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")

    async def run() -> None:
        await server.serve(make(), bind, port, name)

    asyncio.run(run())
