"""Endpoints on loopback that record notices, and answer as the test says: as Slack, PagerDuty, SMTP, or not at all."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes, dict[str, str]]


class HttpEndpoint:
    """An HTTP endpoint. `answer` returns status, body and headers of each request; by default 200 and `ok`."""

    def __init__(self) -> None:
        self.received: list[Any] = []  # the JSON of each request
        self.paths: list[str] = []
        self.answer: Callable[[], Answer] = lambda: (200, b"ok", {})
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.paths.append(self.path)
                endpoint.received.append(json.loads(body))
                status, content, headers = endpoint.answer()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop the server and free its port."""
        self._server.shutdown()
        self._server.server_close()

    def wait(self, number: int, seconds: float = 10.0) -> list[Any]:
        """Wait until so many requests have come, and return all."""
        end = time.monotonic() + seconds
        while len(self.received) < number and time.monotonic() < end:
            time.sleep(0.01)
        return list(self.received)


@contextmanager
def smtp_endpoint() -> Iterator[tuple[int, list[str]]]:
    """Serve SMTP (RFC 5321) without TLS. Yield the port, and the list of the messages that came."""
    messages: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 test\r\n")
            while line := self.rfile.readline().strip():
                match line[:4].upper():
                    case b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        lines = []
                        while (part := self.rfile.readline()) != b".\r\n":
                            lines.append(part.decode())
                        messages.append("".join(lines))
                        self.wfile.write(b"250 taken\r\n")
                    case b"QUIT":
                        self.wfile.write(b"221 bye\r\n")
                        return
                    case _:
                        self.wfile.write(b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1], messages
        server.shutdown()
