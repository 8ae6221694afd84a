"""A server of zmon in this process, and clients that misbehave."""

import asyncio
import contextlib
import ssl
import zlib

from aiohttp import web
from aiohttp.test_utils import unused_port

from zmon.web.server import application, serve

# A request that has not ended.
HALF = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Wait"


def request(page):
    """Return the bytes of a whole request."""
    return f"GET /{page} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


WHOLE = request("metrics")
COMPRESSED = zlib.compress(bytes(1 << 20))


class Server:
    """A running server with the pages `/metrics`, `/slow` and `/large`, and `/length`, to which bodies are posted."""

    def __init__(self):
        self.port = unused_port()
        self.released = asyncio.Event()
        self.being_answered = asyncio.Semaphore(0)  # acquire it once for each request of `/slow` that has arrived
        self.sockets = []

    async def metrics(self, request):
        """Answer at once."""
        return web.Response(text="up 1\n")

    async def slow(self, request):
        """Answer once `released` is set."""
        self.being_answered.release()
        await self.released.wait()
        return web.Response(text="done\n")

    async def large(self, request):
        """Answer with 64 MB."""
        return web.Response(body=b"x" * (64 << 20))

    async def length(self, request):
        """Answer with 200 if the body is COMPRESSED as it was sent, otherwise with 500."""
        return web.Response(status=200 if await request.read() == COMPRESSED else 500)

    async def send(self, data, tls=None):
        """Open a connection, with the context `tls` if it is given, send these bytes, and return its streams."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 10, ssl=tls)
        self.sockets.append(writer)
        writer.write(data)
        await writer.drain()
        return reader, writer

    async def status(self, data=WHOLE, seconds=2.0, tls=None):
        """Send a request and return the status of the answer; None if the connection is closed without one."""
        try:
            reader, _ = await self.send(data, tls)
            async with asyncio.timeout(seconds):
                line = await reader.readline()
        except (ssl.SSLError, ConnectionError):
            return None
        return int(line.split()[1]) if line else None


async def is_closed(reader, seconds):
    """Return True if the server closes the connection within this time."""
    try:
        async with asyncio.timeout(seconds):
            return not await reader.read(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def _until_it_listens(port, running):
    """Wait until the server accepts a connection. If it has ended, raise its error."""
    while not running.done():
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        await asyncio.sleep(0.01)
    running.result()


@contextlib.asynccontextmanager
async def running_server(max_connections=8, live=None):
    """Yield a server that allows this number of connections, and has this web configuration."""
    server = Server()
    app = application(live=live)
    app.add_routes([web.get(f"/{name}", getattr(server, name)) for name in ("metrics", "slow", "large")])
    app.router.add_post("/length", server.length)
    running = asyncio.create_task(serve(app, "127.0.0.1", server.port, "test", max_connections, live))
    try:
        await _until_it_listens(server.port, running)
        async with asyncio.timeout(20):
            yield server
    finally:
        for writer in server.sockets:
            writer.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
