"""Receive the pages of a stage: a webhook that stores every alert that Alertmanager delivers, with its arrival time."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lab.stage import ReceivedPage


class Webhook:
    """An HTTP server on loopback that receives alerts until `close`."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, dict[str, Any]]] = []  # arrival in unix seconds, and what came; oldest first
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                calls.append((time.time(), json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def pages(self) -> list[ReceivedPage]:
        """Return all alerts so far, oldest first."""
        return [_page(arrival, alert) for arrival, delivery in [*self.calls] for alert in delivery["alerts"]]

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


def _page(arrival: float, alert: dict[str, Any]) -> ReceivedPage:
    labels = alert["labels"]
    return ReceivedPage(
        time=arrival,
        alert=labels["alertname"],
        status=alert["status"],
        severity=labels.get("severity", ""),
        job_id=labels.get("job_id"),
        summary=alert["annotations"].get("summary", ""),
        labels=labels,
        fingerprint=alert.get("fingerprint", ""),
        began=alert.get("startsAt", ""),
    )
