"""Give memory that was freed back to the kernel, every ten seconds.

The hub decodes the reports of all agents every second and drops them a second later. glibc gives back only the free end
of its heap (malloc_trim(3)). What lies free between blocks in use stays resident: 8 MiB after a minute with 1,024
ranks. Giving it back takes 2 to 5 ms there.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

_INTERVAL_SECONDS = 10.0

Trim = Callable[[int], object]


def trim_of_libc() -> Trim:
    """Return malloc_trim of the C library of this process; one that does nothing if it has none, as musl."""
    trim: Trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    return trim


class FreeMemory:
    """The free memory of this process."""

    def __init__(self, trim: Trim, clock: Callable[[], float] = time.monotonic) -> None:
        self._trim, self._clock = trim, clock
        self._due_at = clock() + _INTERVAL_SECONDS

    def give_back(self) -> None:
        """Give free memory back if that is due; call it in every pass."""
        if self._clock() >= self._due_at:
            self._trim(0)
            self._due_at = self._clock() + _INTERVAL_SECONDS
