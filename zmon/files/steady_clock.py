"""Tells whether the wall clock may decide which files are too old.

A clock that is wrong by a year makes every file too old. It jumps there, or it was wrong when the machine started. In
both cases somebody, or NTP, puts it right within an hour, and nothing that was deleted comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP_SECONDS = 60.0  # NTP moves a running clock by less than two seconds an hour
HOLD_SECONDS = 3600.0


class SteadyClock:
    """Compares the wall clock with the monotonic clock. Call `is_steady` at least once an hour."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        hold_seconds: float = HOLD_SECONDS,
    ) -> None:
        """`hold_seconds`: how long the clock must have run without a jump."""
        self._wall, self._monotonic, self._hold_seconds = wall, monotonic, hold_seconds
        self._offset = wall() - monotonic()
        self._steady_from = monotonic() + hold_seconds

    def is_steady(self) -> bool:
        """Return True if the wall clock has not jumped within the last hour, which began after the start."""
        now = self._monotonic()
        offset = self._wall() - now
        if abs(offset - self._offset) > JUMP_SECONDS:
            self._steady_from = now + self._hold_seconds
        self._offset = offset
        return now >= self._steady_from
