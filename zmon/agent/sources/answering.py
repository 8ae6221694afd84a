"""Ask other hosts for an answer over TCP: a host that answers is reachable.

The agent requests a connection to the port `discard` of each host, where usually nothing listens: a refusal is an
answer, too. A missing answer alone proves nothing, because a firewall may drop such requests.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import NamedTuple

TIMEOUT_SECONDS = 0.5  # for an answer; a network of one cluster answers within milliseconds
_PORT = 9  # discard (RFC 863)
_ANSWERS = (0, errno.ECONNREFUSED)


class _Attempt(NamedTuple):
    """An attempt to connect, and its result so far."""

    socket: socket.socket
    error: int  # errno; 0: connected


def answering_addresses(own_addresses: Mapping[str, str], timeout_seconds: float = TIMEOUT_SECONDS) -> frozenset[str]:
    """Return the addresses that answer. `own_addresses`: the address of this host to connect from, by peer address."""
    until = time.monotonic() + timeout_seconds
    with ExitStack() as sockets:
        attempts = {address: _connect(sockets, address, source) for address, source in own_addresses.items()}
        answered = {address for address, attempt in attempts.items() if attempt.error in _ANSWERS}
        waiting = {
            attempt.socket.fileno(): address
            for address, attempt in attempts.items()
            if attempt.error == errno.EINPROGRESS
        }
        poll = select.poll()
        num_waiting = len(waiting)
        for number in waiting:
            poll.register(number, select.POLLOUT)
        while num_waiting and (seconds := until - time.monotonic()) > 0:
            for number, _ in poll.poll(1000 * seconds):
                poll.unregister(number)
                num_waiting -= 1
                address = waiting[number]
                if attempts[address].socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _ANSWERS:
                    answered.add(address)
    return frozenset(answered)


def _connect(sockets: ExitStack, address: str, source: str) -> _Attempt:
    """Begin to connect; `sockets` closes the socket."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    attempt = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
    attempt.setblocking(False)
    try:
        attempt.bind((source, 0))
        return _Attempt(attempt, attempt.connect_ex((address, _PORT)))
    except OSError as error:  # the own address has just gone, or needs the name of an interface
        return _Attempt(attempt, error.errno or errno.EIO)
