"""The hub's end of the line to one agent: what it said last, and since when it is silent."""

from __future__ import annotations

import time
from typing import Any

from zmon.records import AgentReport, AgentStatus

FORGET_SECONDS = 3600.0


class AgentLink:
    """The hub's end of the line to one agent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.report: AgentReport | None = None
        self.cursor: int | None = None  # what happened before this hub came is not counted again
        self.suspects: tuple[Any, ...] = ()
        self.error: str | None = "it has not answered yet"
        self._heard = time.monotonic()

    @property
    def reachable(self) -> bool:
        """Whether the last question was answered."""
        return self.error is None

    @property
    def silent_seconds(self) -> float:
        """How long it has not answered; 0 while it does."""
        return 0.0 if self.reachable else time.monotonic() - self._heard

    def failed(self, error: str) -> None:
        """It did not answer; what it said last is forgotten after an hour, and with it its jobs."""
        self.error, self.suspects = error, ()
        if self.silent_seconds > FORGET_SECONDS:
            self.report = None

    def heard(self, report: AgentReport) -> None:
        """It answered."""
        self.report, self.cursor, self.error = report, report.cursor, None
        self._heard = time.monotonic()

    def status(self) -> AgentStatus:
        """For the detectors."""
        return AgentStatus(
            url=self.url,
            host=self.report.host if self.report else None,
            reachable=self.reachable,
            silent_seconds=self.silent_seconds,
            error=self.error,
            sources=self.report.sources if self.report else (),
        )
