"""Starts a daemon from the command line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp.web
import click

from zmon.cli import log_format
from zmon.web import server
from zmon.web.live_config import LiveConfig
from zmon.web.open_files import connections_within, raise_limit
from zmon.web.systemd_socket import address, systemd_socket

# A thread that reads files gives up the interpreter at each read, and gets it back after this time if the server is
# busy. With Python's 5 ms, a scan of 16 boxes would take a second then.
_SWITCH_SECONDS = 0.0005


@dataclass(frozen=True)
class Listening:
    """The address of a daemon, those to whom it answers, and whether its options are only checked."""

    bind: str
    port: int
    live: LiveConfig | None
    insecure_public: bool
    check_config: bool
    systemd_socket: bool


def serve(name: str, listening: Listening, make: Callable[[], aiohttp.web.Application], reserved_files: int) -> None:
    """Serve HTTP until SIGTERM or SIGINT. `reserved_files`: the open files that the daemon needs for its own work.

    Raises UsageError if others than this machine could ask without TLS or unknown, or if too few files may be open.
    """
    sock = systemd_socket(os.environ) if listening.systemd_socket and not listening.check_config else None
    bind, port = address(sock) if sock is not None else (listening.bind, listening.port)
    server.check_bind(bind, listening.live, listening.insecure_public)
    if listening.check_config:
        click.echo(f"zmon {name}: the configuration is valid")
        return
    sys.setswitchinterval(_SWITCH_SECONDS)
    most = connections_within(raise_limit(), reserved_files)
    log_format.configure()

    async def run() -> None:
        await server.serve(make(), bind, port, name, most, listening.live, sock)

    asyncio.run(run())
