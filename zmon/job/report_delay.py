"""Measures how late the reports of one agent arrive, so that the ages in reports of several hosts can be compared.

Two clocks are never compared directly: a report is late by the time that it took longer than the fastest report of the
last minutes. The shortest delay itself is not measured. Pure.
"""

from __future__ import annotations

from collections import deque

# One report in this time comes without a delay. Clocks that follow NTP drift apart by some us/s, so by some ms.
WINDOW_SECONDS = 600.0


class ReportDelay:
    """The delay of the latest report of one agent, in seconds."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._fastest: deque[tuple[float, float]] = deque()  # (arrival, arrival - report time), both ascending

    def restart(self) -> None:
        """Forget all reports, because the clock of the agent's host is another one."""
        self.seconds = 0.0
        self._fastest.clear()

    def add(self, arrival: float, taken: float) -> None:
        """Add a report that arrived at a time of the hub's clock, and was taken at a time of the host's clock."""
        difference = arrival - taken
        while self._fastest and self._fastest[-1][1] >= difference:
            self._fastest.pop()
        self._fastest.append((arrival, difference))
        while arrival - self._fastest[0][0] > WINDOW_SECONDS:
            self._fastest.popleft()
        self.seconds = difference - self._fastest[0][1]
