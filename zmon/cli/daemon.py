"""Starts a daemon from the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import aiohttp.web

from zmon.cli import log_format
from zmon.web import server
from zmon.web.open_files import connections_within, raise_limit

# A thread that reads files gives up the interpreter at each read, and gets it back after this time if the server is
# busy. With Python's 5 ms, a scan of 16 boxes would take a second then.
_SWITCH_SECONDS = 0.0005


def serve(
    name: str, bind: str, public: bool, port: int, make: Callable[[], aiohttp.web.Application], reserved_files: int
) -> None:
    """Serve HTTP until SIGTERM or SIGINT. `reserved_files`: the open files that the daemon needs for its own work.

    Raises UsageError if `bind` is not a loopback address and `public` is false, or if too few files may be open.
    """
    server.check_bind(bind, public)
    sys.setswitchinterval(_SWITCH_SECONDS)
    most = connections_within(raise_limit(), reserved_files)
    log_format.configure()

    async def run() -> None:
        await server.serve(make(), bind, port, name, most)

    asyncio.run(run())
