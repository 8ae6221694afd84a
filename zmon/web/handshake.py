"""A new connection of a server with TLS, until its handshake is over.

Until then it counts as a connection without a request. When the server reaches its limit of connections, it closes such
connections first.
"""

from __future__ import annotations

import asyncio
import logging

from zmon.web.connections import Connections, HttpConnection
from zmon.web.live_config import LiveConfig

log = logging.getLogger("zmon.web")

HANDSHAKE_SECONDS = 10.0  # three round trips and some computing; a client that takes longer is closed
_SHUTDOWN_SECONDS = 1.0  # for the end of TLS, when the connection is closed


class Handshake(asyncio.Protocol):
    """A connection until its handshake is over and the client verified; then `http` handles it."""

    def __init__(self, http: HttpConnection, connections: Connections, live: LiveConfig) -> None:
        self._http, self._connections, self._live = http, connections, live
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []  # what the client sent right after its last message of the handshake
        self._is_lost = False
        self._task: asyncio.Task[None] | None = None  # the event loop keeps no strong reference to a task

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.pause_reading()  # start_tls resumes it
        self._connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._begin_tls(transport))

    def data_received(self, data: bytes) -> None:
        """Keep data, which asyncio has decrypted, for `http`."""
        self._early.append(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._is_lost = True
        self._connections.remove(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _begin_tls(self, transport: asyncio.Transport) -> None:
        """Do the handshake and hand the connection to `http`. If the client may not connect, close it."""
        if transport.is_closing():  # the server is at its limit, and closed this connection
            return
        try:
            context = self._http.context = self._live.context()
            assert context is not None
            secure = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except Exception as error:  # a client without TLS, without a valid certificate, or gone; a file that is gone
            log.info("the TLS handshake of %s failed: %s", transport.get_extra_info("peername"), error)
            transport.abort()
            return
        finally:
            self._connections.remove(self)
        if secure is None or self._is_lost:
            return
        if not self._live.is_allowed(secure.get_extra_info("peercert")):
            log.warning("a client's certificate has no name that client_allowed_sans lists")
            secure.abort()
            return
        secure.set_protocol(self._http)
        self._http.connection_made(secure)
        for data in self._early:
            self._http.data_received(data)
