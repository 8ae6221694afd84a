"""Starts a daemon from the command line: its address, its log, and the number of files that it may open."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp.web
import click

from zmon.cli.log_format import PlainFormatter
from zmon.cli.options import bind_option, file_option, grouped_options, insecure_public_option, port_option
from zmon.errors import UsageError
from zmon.web import server
from zmon.web.limits import connections_within, raise_limit
from zmon.web.live_config import LiveConfig

# A thread that reads files releases the GIL at each read, and waits up to this time to get it back from a busy server.
# With Python's default of 5 ms, a scan of 16 boxes then takes a second.
_SWITCH_SECONDS = 0.0005
_FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START: the number of the first socket that systemd passes


@dataclass(frozen=True)
class Listening:
    """The values of the options with which a daemon listens."""

    bind: str
    port: int
    web_config: LiveConfig | None  # TLS, users and roles; None: plain HTTP without users
    insecure_public: bool  # listen beyond loopback even without TLS or users
    check_config: bool  # only check the options, and exit
    systemd_socket: bool  # listen on the socket of systemd in place of `bind` and `port`


def listening_options(default_port: int) -> Callable[[Any], Callable[..., None]]:
    """Return the options of a daemon's address, which its command gets as `listening`."""
    return grouped_options(
        "listening",
        Listening,
        bind_option,
        file_option(
            "--web.config.file",
            "web_config",
            "ZMON_WEB_CONFIG_FILE",
            LiveConfig,
            "TLS, users and roles, with the keys of Prometheus' exporters (docs/deploy/security.md). SIGHUP reads it "
            "again.",
        ),
        insecure_public_option,
        click.option(
            "--web.systemd-socket",
            "systemd_socket",
            is_flag=True,
            help="Listen on the socket that systemd passes, instead of --bind and --port.",
        ),
        click.option("--check-config", is_flag=True, help="Check the options and the files that they name, and exit."),
        port_option(default_port),
    )


def serve(
    name: str, listening: Listening, make_app: Callable[[], aiohttp.web.Application], reserved_files: int
) -> None:
    """Serve HTTP until SIGTERM or SIGINT; return at once if the configuration is only checked.

    `reserved_files`: the open files that the daemon needs for its own work. Raises UsageError if the address is not
    loopback and requests would come without TLS or from unknown clients, and if too few files may be open.
    """
    bind = listening.bind
    port = listening.port
    sock = None
    if listening.systemd_socket and not listening.check_config:
        sock = systemd_socket(os.environ)
        bind, port, *_ = sock.getsockname()  # IPv6 has two more fields
    server.check_bind(bind, listening.web_config, listening.insecure_public)
    if listening.check_config:
        click.echo(f"zmon {name}: the configuration is valid")
        return
    sys.setswitchinterval(_SWITCH_SECONDS)
    max_connections = connections_within(raise_limit(), reserved_files)
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    async def run() -> None:
        await server.serve(make_app(), bind, port, name, max_connections, listening.web_config, sock)

    asyncio.run(run())


def systemd_socket(environment: Mapping[str, str]) -> socket.socket:
    """Return the socket that systemd has opened (sd_listen_fds(3)). Raises UsageError unless there is exactly one.

    It accepts connections also while the daemon restarts, so no scrape fails.
    """
    number = environment.get("LISTEN_FDS", "0")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not number.isdecimal() or int(number) != 1:
        raise UsageError(
            "--web.systemd-socket needs one socket of systemd",
            f"LISTEN_FDS is {number}" if number != "0" else "systemd has passed none",
            "Start the daemon by its .socket unit, or leave out --web.systemd-socket",
        )
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)
