"""The login of doctor at the Alertmanager that `zmon up` started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zmon.web.client import basic_auth


@dataclass(frozen=True)
class Login:
    """The password of one Alertmanager. It is sent to no other, whatever Prometheus reports."""

    url: str
    user: str
    password_file: Path

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers of requests to the Alertmanager at `url`."""
        if url.rstrip("/") != self.url.rstrip("/"):
            return {}
        try:
            return basic_auth(self.user, self.password_file.read_text().strip())
        except OSError:
            return {}  # Alertmanager then refuses the request, which the check shows
