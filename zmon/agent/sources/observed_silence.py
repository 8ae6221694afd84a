"""The time for which an agent has seen a rank make no progress.

What the agent sees of a rank holds for a second before it looks, which it does ten times a second. If it did not look
for longer, it did not run, and the rank may not have run either: a virtual machine was suspended or moved. That time is
no silence of the rank.
"""

from __future__ import annotations

_OBSERVED_NS = 1_000_000_000


class ObservedSilence:
    """The silence of one rank. Times are nanoseconds of the host's monotonic clock."""

    def __init__(self, now_ns: int) -> None:
        self._looked_at = now_ns
        self._renewed_at = 0  # the last progress
        self.unobserved_ns = 0  # since then

    def look(self, now_ns: int, renewed_ns: int) -> int:
        """Return the observed silence of a rank whose last progress was at `renewed_ns`."""
        if renewed_ns != self._renewed_at:
            self._renewed_at, self.unobserved_ns = renewed_ns, 0
        self.unobserved_ns += max(0, now_ns - max(self._looked_at, renewed_ns) - _OBSERVED_NS)
        self._looked_at = now_ns
        return now_ns - renewed_ns - self.unobserved_ns
