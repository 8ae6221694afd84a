"""The hub's unix time, and by how much it was set: NTP after the start, a person, or a machine that was suspended.

Stamps that people read need unix time. A difference of two such times is a duration only if nobody set the clock in
between, so what waits for a time is moved along with the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SET_SECONDS = 1.0  # less is no harm here, and a busy host may lie between the two readings for some time


class WallClock:
    """Unix time, compared with a clock that nobody sets."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._ahead = wall() - monotonic()

    def read(self) -> tuple[float, float]:
        """Return unix time, and the seconds by which the clock was set since the last reading; 0 if it ran on."""
        now = self._wall()
        ahead = now - self._monotonic()
        moved = ahead - self._ahead
        if abs(moved) < _SET_SECONDS:
            return now, 0.0
        self._ahead = ahead
        return now, moved
