"""A hub that serves HTTP on a port of its own, in a thread: for tests that ask it from elsewhere."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer


@contextmanager
def serving(hub, requests=None):
    """Yield the URL of a hub. It makes no passes: it stays as the test has made it.

    `requests`: a list that gets the method and the path of each request.
    """
    app = hub.app()
    app.cleanup_ctx.clear()

    @web.middleware
    async def record(request, handler):
        if requests is not None:
            requests.append((request.method, request.path))
        return await handler(request)

    app.middlewares.append(record)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

    server = TestServer(app)
    try:
        run(server.start_server())
        yield str(server.make_url("")).rstrip("/")
    finally:
        run(server.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
