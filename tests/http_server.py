"""An HTTP server on loopback whose answers a test sets."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from zmon.schema.api import Problem


class _Server(ThreadingHTTPServer):
    request_queue_size = 64  # a page opens many connections at once; a refused one tries again after a second


class FakeServer:
    """A server whose answers a function returns, given the path and the query of a request.

    Bytes are sent unchanged, and other values as JSON. The status is 404 for None and a Problem, else 200. A pair is
    the status and the answer.
    """

    def __init__(self, answers: Callable[[str, dict[str, str]], object], port: int = 0) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                split = urlsplit(self.path)
                answer = answers(split.path, {key: values[0] for key, values in parse_qs(split.query).items()})
                if not isinstance(answer, tuple):
                    answer = (404 if answer is None or isinstance(answer, Problem) else 200), answer
                status, content = answer
                body = content if isinstance(content, bytes) else msgspec.json.encode(content)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # a client that no longer waits
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", port), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
