"""The hub's unix time, and the seconds by which it was set: by NTP, by a person, or by the resume of a machine.

Times that people read are unix times. A difference of two such times is a duration only if nobody set the clock in
between. So the hub moves its stored times by the same seconds when the clock is set.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SET_SECONDS = 1.0  # smaller changes do no harm here, and on a busy host the two clocks are not read at one instant


class WallClock:
    """Unix time, compared with a clock that nobody sets."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._ahead = wall() - monotonic()  # seconds

    def read(self) -> tuple[float, float]:
        """Return unix time, and the seconds by which the clock was set since the last reading; 0 if it ran on."""
        now = self._wall()
        ahead = now - self._monotonic()
        moved = ahead - self._ahead
        if abs(moved) < _SET_SECONDS:
            return now, 0.0
        self._ahead = ahead
        return now, moved
