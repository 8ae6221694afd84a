"""The hub's end of the line to one agent: what it said last, and since when it is silent."""

from __future__ import annotations

import time
from typing import Any

from zmon.records import AgentReport, AgentStatus


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
            silent_seconds=0.0 if self.reachable else time.monotonic() - self._heard,
            error=self.error,
            sources=self.report.sources if self.report else (),
            ranks=tuple((r.job_id, r.rank) for r in self.report.ranks) if self.report else (),
        )
