"""A receiver for the notifications of Alertmanager."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Webhook:
    """Everything that Alertmanager sent, with its arrival time."""

    port: int = 0
    calls: list[tuple[float, dict[str, Any]]] = field(default_factory=list)  # unix seconds, body

    def alerts(self, job_id: str, status: str, since: float = 0.0) -> list[dict[str, Any]]:
        """Return the alerts about one job with this status, firing or resolved, that arrived since this time."""
        alerts = (alert for arrival, call in self.calls if arrival >= since for alert in call["alerts"])
        return [alert for alert in alerts if alert["labels"].get("job_id") == job_id and alert["status"] == status]


@contextlib.contextmanager
def running_webhook() -> Iterator[Webhook]:
    """Receive notifications on a free port during the block."""
    webhook = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            webhook.calls.append((time.time(), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    webhook.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield webhook
    finally:
        server.shutdown()
