"""The memory of the hub: free memory goes back to the kernel, and reference cycles are searched for seldom.

In each pass the hub decodes the reports of all agents, and drops those of the pass before. glibc gives back only the
free end of its heap (malloc_trim(3)), so memory that is free between blocks in use would stay resident.

A pass makes many objects, and hardly any of them are in a cycle. By default, Python 3.11 starts a search once 700 more
objects were made than freed. These searches took a quarter of the time of decoding. While a pass replaces the reports
of all agents, the hub has about 20 objects more per rank than between passes.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable

_INTERVAL_SECONDS = 10.0  # giving memory back takes some milliseconds
_LEAST_OBJECTS = 100_000  # for a hub of few ranks, which makes this many objects only over many passes
_OBJECTS_PER_RANK = 32  # more than the 20 of a pass, so that a pass alone starts no search

Trim = Callable[[int], object]


def trim_of_libc() -> Trim:
    """Return malloc_trim of this process's C library; a function without effect if the library, as musl, has none."""
    trim: Trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    return trim


class FreeMemory:
    """Gives the free memory of this process back to the kernel at intervals."""

    def __init__(self, trim: Trim, clock: Callable[[], float] = time.monotonic) -> None:
        self._trim, self._clock = trim, clock
        self._due_at = clock() + _INTERVAL_SECONDS

    def give_back(self) -> None:
        """Give free memory back if that is due; call it in every pass."""
        if self._clock() >= self._due_at:
            self._trim(0)
            self._due_at = self._clock() + _INTERVAL_SECONDS


def limit_cycle_searches(num_ranks: int = 0) -> None:
    """Limit how often this process searches for cycles to what a hub of that many ranks needs."""
    objects = max(_LEAST_OBJECTS, _OBJECTS_PER_RANK * num_ranks)
    if objects > gc.get_threshold()[0]:
        gc.set_threshold(objects)
