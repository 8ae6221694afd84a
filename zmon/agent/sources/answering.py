"""Find out which addresses answer, while a job stands still and no traffic shows it.

It asks for a TCP connection to the port `discard`, where usually nothing listens: a refusal is an answer, too. No
answer alone proves nothing, because a firewall may drop such requests.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack

TIMEOUT_SECONDS = 0.5  # a network of one cluster answers within milliseconds
_PORT = 9  # discard (RFC 863)
_ANSWERS, _WAITING = (0, errno.ECONNREFUSED), errno.EINPROGRESS


def answering(own_addresses: Mapping[str, str], timeout_seconds: float = TIMEOUT_SECONDS) -> frozenset[str]:
    """Return the addresses that answer. `own_addresses` has the own address to ask from, by the address to ask."""
    until = time.monotonic() + timeout_seconds
    with ExitStack() as stack:
        codes = {address: _connect(stack, address, source) for address, source in own_addresses.items()}
        at_once = {address for address, (_, code) in codes.items() if code in _ANSWERS}
        waiting = {asking.fileno(): (asking, address) for address, (asking, code) in codes.items() if code == _WAITING}
        return frozenset(at_once | _answered(waiting, until))


def _connect(stack: ExitStack, address: str, source: str) -> tuple[socket.socket, int]:
    """Begin to connect; return the socket, which the stack closes, and the result so far."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    asking = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    asking.setblocking(False)
    try:
        asking.bind((source, 0))
        return asking, asking.connect_ex((address, _PORT))
    except OSError as error:  # the own address has just gone, or needs the name of an interface
        return asking, error.errno or errno.EIO


def _answered(waiting: Mapping[int, tuple[socket.socket, str]], until: float) -> set[str]:
    """Return the addresses of the sockets that get an answer by the monotonic time `until`."""
    poll, answers, num_open = select.poll(), set(), len(waiting)
    for number in waiting:
        poll.register(number, select.POLLOUT)
    while num_open and (seconds := until - time.monotonic()) > 0:
        for number, _ in poll.poll(1000 * seconds):
            poll.unregister(number)
            num_open -= 1
            asking, address = waiting[number]
            if asking.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in _ANSWERS:
                answers.add(address)
    return answers
