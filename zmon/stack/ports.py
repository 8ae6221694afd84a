"""Ports of the parts: reserved for as long as the stack runs, and checked for who listens on them.

A part binds its port itself, some time after the stack has chosen it, and again after each restart. Meanwhile the stack
holds the port with a socket that is bound but does not listen. The kernel then gives the port to no other program, and
refuses programs that ask for it by number, unless they set SO_REUSEADDR. Servers set it, so that connections of an
earlier server (TIME_WAIT) do not block them, and so does a second stack. Therefore a stack also holds a name in the
abstract namespace of Unix sockets, which only one process can hold at a time.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from zmon.errors import PartFailed

_HOST = "127.0.0.1"
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_MAX_TRIES = 20  # ports that the kernel chose and another stack holds: one try is nearly always enough


class ReservedPort:
    """A port of this machine that no other stack uses; `release` gives it back."""

    def __init__(self, preferred: int) -> None:
        """Reserve the preferred port, or any free one if it is in use. Raises PartFailed if there is none."""
        for port in (preferred, *[0] * _MAX_TRIES):
            if self._reserve(port):
                return
        raise PartFailed("there is no free port", f"no port can be bound on {_HOST}", "Check that its interface is up")

    def release(self) -> None:
        self._sockets.close()

    def _reserve(self, port: int) -> bool:
        with contextlib.ExitStack() as sockets, contextlib.suppress(OSError):
            bound = sockets.enter_context(socket.socket())
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((_HOST, port))
            self.number = int(bound.getsockname()[1])
            sockets.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0zmon-port-{self.number}")
            self._sockets = sockets.pop_all()
            return True
        return False


def listens(pids: list[int], port: int) -> bool:
    """Return True if one of these processes listens on the port, so that an answer from there is theirs."""
    inodes = {inode for pid in pids for inode in _sockets_of(pid)}
    return any(inode in inodes for pid in pids for inode in _listeners(pid, port))


def _sockets_of(pid: int) -> Iterator[str]:
    """Yield the inodes of the sockets that a process has open."""
    with contextlib.suppress(OSError):  # it has ended
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(entry.readlink())
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]


def _listeners(pid: int, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on the port, in the network namespace of the process."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, address, _, state, _, _, _, _, _, inode, *_ = line.split()
                if state == _LISTEN and int(address.rpartition(":")[2], 16) == port:
                    yield inode
