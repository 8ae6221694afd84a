"""Starts a daemon from the command line: its address, its log, and the open files that it may have."""

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

from zmon.cli.options import bind_option, file_option, grouped_options, insecure_public_option, port_option
from zmon.errors import UsageError
from zmon.format import plain, plain_lines
from zmon.web import server
from zmon.web.limits import connections_within, raise_limit
from zmon.web.live_config import LiveConfig

# A thread that reads files gives up the interpreter at each read, and gets it back after this time if the server is
# busy. With Python's 5 ms, a scan of 16 boxes would take a second then.
_SWITCH_SECONDS = 0.0005
_FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START
_FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"
_INDENT = "    "  # a line of a traceback begins with it; a line of the log begins with its time


@dataclass(frozen=True)
class Listening:
    """The address of a daemon, the clients that it answers, and whether its options are only checked."""

    bind: str
    port: int
    live: LiveConfig | None
    insecure_public: bool
    check_config: bool
    systemd_socket: bool


def listening_options(default_port: int) -> Callable[[Any], Callable[..., None]]:
    """Return the options of a daemon's address, which its command gets as `listening`."""
    return grouped_options(
        "listening",
        Listening,
        bind_option,
        file_option(
            "--web.config.file",
            "live",
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


def serve(name: str, listening: Listening, make: Callable[[], aiohttp.web.Application], reserved_files: int) -> None:
    """Serve HTTP until SIGTERM or SIGINT. `reserved_files`: the open files that the daemon needs for its own work.

    Raises UsageError if the address is not loopback and requests would come without TLS or from unknown clients, and if
    too few files may be open.
    """
    bind = listening.bind
    port = listening.port
    sock = None
    if listening.systemd_socket and not listening.check_config:
        sock = systemd_socket(os.environ)
        bind, port, *_ = sock.getsockname()
    server.check_bind(bind, listening.live, listening.insecure_public)
    if listening.check_config:
        click.echo(f"zmon {name}: the configuration is valid")
        return
    sys.setswitchinterval(_SWITCH_SECONDS)
    max_connections = connections_within(raise_limit(), reserved_files)
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])

    async def run() -> None:
        await server.serve(make(), bind, port, name, max_connections, listening.live, sock)

    asyncio.run(run())


def systemd_socket(environment: Mapping[str, str]) -> socket.socket:
    """Return the socket that systemd has opened (sd_listen_fds(3)). Raises UsageError unless there is exactly one.

    It accepts connections while the daemon starts again, so no scrape fails.
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


class PlainFormatter(logging.Formatter):
    """Formats a record as one plain line, so that no text from outside can forge one, with its traceback indented."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # its name in the standard library
        record.message = plain(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        return _indented(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in plain_lines(text).split("\n"))
