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
        self._pages: list[ReceivedPage] = []
        store = self._store

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                store(time.time(), json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def pages(self) -> list[ReceivedPage]:
        """Return all alerts so far, oldest first."""
        return list(self._pages)

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def _store(self, now: float, delivery: dict[str, Any]) -> None:
        for alert in delivery["alerts"]:
            labels, annotations = alert["labels"], alert["annotations"]
            self._pages.append(
                ReceivedPage(
                    time=now,
                    alert=labels["alertname"],
                    status=alert["status"],
                    severity=labels.get("severity", ""),
                    job_id=labels.get("job_id"),
                    summary=annotations.get("summary", ""),
                    labels=labels,
                    fingerprint=alert.get("fingerprint", ""),
                    began=alert.get("startsAt", ""),
                )
            )
