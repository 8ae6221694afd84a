"""The connections of a server: their number is limited, and whoever sends no complete request is closed first.

On loopback an attacker has the same address as Prometheus and the hub, so the address does not tell them apart. What
does is the request: theirs is complete within a millisecond. A connection in the middle of an answer is never closed to
make room, because the server limits how many requests it works on at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from aiohttp import web

# After this time aiohttp closes a connection that is idle, or whose request has not arrived. No usual interval of
# scrapes has this length: a connection should not be closed just when the next scrape begins.
IDLE_SECONDS = 45.0
# A POST waits this long for its body. Other endpoints read no body: aiohttp drops it for this long after the answer, so
# that the client sees the answer.
BODY_SECONDS = 1.0
SEND_SECONDS = 30.0  # a client that has not taken its answer after this time is closed


class Closable(Protocol):
    """A connection that can be closed to make room."""

    def abort(self) -> None:
        """Close at once, without sending what the client has not taken yet."""


class Connections:
    """All open connections of one server."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        # The connections by their state. A dict is an ordered set here: the oldest connection is first.
        self._unknown: dict[Closable, None] = {}  # between two requests; the last one did not show who asks
        self._new: dict[Closable, None] = {}  # without a complete request
        self._idle: dict[Closable, None] = {}  # between two requests
        self._busy: dict[Closable, None] = {}  # with a request that is being answered

    def add(self, connection: Closable) -> None:
        """Add a new connection. Beyond the limit, close the oldest one without a complete request, else this one.

        Connections of those who have shown no password, token or certificate, where one is needed, are closed first.
        """
        if sum(map(len, (self._unknown, self._new, self._idle, self._busy))) >= self._max_connections:
            victim = next(iter(self._unknown or self._new or self._idle), connection)
            victim.abort()
            self.remove(victim)
            if victim is connection:
                return
        self._new[connection] = None

    def remove(self, connection: Closable) -> None:
        """Forget a connection that is closed."""
        for state in (self._unknown, self._new, self._idle, self._busy):
            state.pop(connection, None)

    @contextlib.contextmanager
    def answering(self, connection: HttpConnection) -> Iterator[None]:
        """Mark a connection as one with a complete request, from the arrival of a request until its answer is sent."""
        self.remove(connection)
        self._busy[connection] = None
        try:
            yield
        finally:
            if connection in self._busy:  # else it was closed meanwhile
                del self._busy[connection]
                (self._idle if connection.is_known else self._unknown)[connection] = None


class HttpConnection(web.RequestHandler):
    """One connection, as aiohttp handles it, with what `Connections` must know about it."""

    def __init__(self, server: web.Server, connections: Connections) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None, and then writes no access log
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=BODY_SECONDS,
            auto_decompress=False,  # before 3.13.3, aiohttp puts no limit on what a body becomes
        )
        self._connections = connections
        self._socket: asyncio.BaseTransport | None = None
        self.is_known = True  # False if the last request had to show who asks, and did not
        self.context: ssl.SSLContext | None = None  # of the handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket = transport
        self._connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        if isinstance(self._socket, asyncio.WriteTransport):
            self._socket.abort()

    def request(self) -> contextlib.AbstractContextManager[None]:
        """Return the context in which a request of this connection is answered."""
        return self._connections.answering(self)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def send_in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a request; close the connection if the client does not take the answer in time."""
    connection = request.protocol
    with connection.request() if isinstance(connection, HttpConnection) else contextlib.nullcontext():
        try:
            response = await handler(request)
        except web.HTTPException as answer:
            await send(request, answer)
            raise
        await send(request, response)
        return response


async def send(request: web.Request, response: web.StreamResponse) -> None:
    """Send an answer. A client that takes too long for it is closed, so that the answer does not stay in memory."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if isinstance(request.protocol, HttpConnection):
            request.protocol.abort()
    except ConnectionError:
        pass  # the client is gone, which aiohttp notices as well
