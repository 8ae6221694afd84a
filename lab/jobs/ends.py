"""Ways in which a rank ends or loses a connection by its own doing, for the saboteur."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

AF_UNSPEC = b"\0" * 16  # connect(2): it dissolves the association, and TCP sends a reset


class StepError(Exception):
    """The exception that a training framework raises from the real one."""


WAYS = ("raise_storage", "raise_wrapped", "exit_zero", "exit_code", "exit_at_once")


def end(way: str) -> None:
    """End this process in one of the `WAYS`."""
    match way:
        case "raise_storage":
            raise RuntimeError("HTTPSConnectionPool(host='s3.internal', port=443): Connection reset by peer")
        case "raise_wrapped":
            try:
                raise KeyError("user_id_19")
            except KeyError as error:
                raise StepError("the step failed") from error
        case "exit_zero":
            sys.exit(0)
        case "exit_code":
            sys.exit(7)
        case "exit_at_once":
            os._exit(9)


def reset_connection() -> None:
    """Reset one TCP connection of this process to another rank; the rendezvous is left alone."""
    library = ctypes.CDLL(None, use_errno=True)
    rendezvous = int(os.environ.get("MASTER_PORT", "0"))
    for entry in sorted(Path("/proc/self/fd").iterdir(), key=lambda path: -int(path.name)):
        try:
            connection = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue
        with connection:
            try:
                ports = {connection.getpeername()[1], connection.getsockname()[1]}
            except (OSError, IndexError):
                continue
            is_tcp = connection.type == socket.SOCK_STREAM and connection.family != socket.AF_UNIX
            if is_tcp and rendezvous not in ports:
                library.connect(connection.fileno(), AF_UNSPEC, len(AF_UNSPEC))
                return
