"""A hub that serves HTTP on a port of its own, in a thread: for tests that ask it from elsewhere."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp.test_utils import TestServer


@contextmanager
def serving(hub):
    """Yield the URL of a hub. It makes no passes: it stays as the test has made it."""
    app = hub.app()
    app.cleanup_ctx.clear()
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
