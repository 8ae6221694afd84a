"""The socket that systemd has opened for a daemon (sd_listen_fds(3)).

It accepts connections while the daemon starts again, so no scrape fails.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from zmon.errors import UsageError

_FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START


def systemd_socket(environment: Mapping[str, str]) -> socket.socket:
    """Return the socket that systemd has opened. Raises UsageError if there is none, or more than one."""
    number = environment.get("LISTEN_FDS", "0")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not number.isdecimal() or int(number) != 1:
        raise UsageError(
            "--web.systemd-socket needs one socket of systemd",
            f"LISTEN_FDS is {number}" if number != "0" else "systemd has passed none",
            "Start the daemon by its .socket unit, or leave out --web.systemd-socket",
        )
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)


def address(listening: socket.socket) -> tuple[str, int]:
    """Return the host and the port of a socket."""
    host, port, *_ = listening.getsockname()
    return str(host), int(port)
