"""Measure how long a rank makes no progress, without the time in which the agent itself did not run."""

from __future__ import annotations

_OBSERVED_NS = 1_000_000_000  # each look at a rank covers this time before it; the agent looks ten times a second


class ObservedSilence:
    """The time for which an agent has observed no progress of one rank, in nanoseconds of the host's monotonic clock.

    If the agent did not look for longer than a second, it did not run, and the rank may not have run either: a virtual
    machine was suspended or moved. That time does not count as silence of the rank.
    """

    def __init__(self, now_ns: int) -> None:
        self._looked_at = now_ns
        self._progress_at = 0  # the last progress
        self.unobserved_ns = 0  # since the last progress

    def look(self, now_ns: int, progress_ns: int) -> int:
        """Return the observed silence of a rank whose last progress was at `progress_ns`."""
        if progress_ns != self._progress_at:
            self._progress_at, self.unobserved_ns = progress_ns, 0
        self.unobserved_ns += max(0, now_ns - max(self._looked_at, progress_ns) - _OBSERVED_NS)
        self._looked_at = now_ns
        return now_ns - progress_ns - self.unobserved_ns
