"""Ask other hosts for an answer over TCP: a host that answers is reachable.

The agent requests a connection to the port `discard` of each host, where usually nothing listens: a refusal is an
answer, too. A missing answer alone proves nothing, because a firewall may drop such requests.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack

TIMEOUT_SECONDS = 0.5  # for an answer; a network of one cluster answers within milliseconds
_PORT = 9  # discard (RFC 863)
_ANSWERS = (0, errno.ECONNREFUSED)


def answering_addresses(own_addresses: Mapping[str, str], timeout_seconds: float = TIMEOUT_SECONDS) -> frozenset[str]:
    """Return the addresses that answer. `own_addresses`: the address of this host to connect from, by peer address."""
    until = time.monotonic() + timeout_seconds
    results: dict[str, int] = {}  # errno by address; 0: connected
    with ExitStack() as sockets, selectors.PollSelector() as waiting:
        for address, source in own_addresses.items():
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            attempt = sockets.enter_context(socket.socket(family, socket.SOCK_STREAM))
            results[address] = _begin_to_connect(attempt, address, source)
            if results[address] == errno.EINPROGRESS:
                waiting.register(attempt, selectors.EVENT_WRITE, (address, attempt))
        while waiting.get_map() and (seconds := until - time.monotonic()) > 0:
            for key, _ in waiting.select(seconds):
                address, attempt = key.data
                waiting.unregister(attempt)
                results[address] = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return frozenset(address for address, error in results.items() if error in _ANSWERS)


def _begin_to_connect(attempt: socket.socket, address: str, source: str) -> int:
    """Begin to connect, and return the result so far: an errno, or 0."""
    attempt.setblocking(False)
    try:
        attempt.bind((source, 0))
        return attempt.connect_ex((address, _PORT))
    except OSError as error:  # the own address has just gone, or needs the name of an interface
        return error.errno or errno.EIO
