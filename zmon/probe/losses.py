"""Records since which step the losses of this rank have not been finite.

After the first NaN, averaged gradients break the weights of all ranks, so every rank has NaN in the next step. A reader
that looks ten times a second cannot tell who was first. The box is written only when a run of steps with losses that
are NaN or infinite begins or ends.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from zmon.box import layout
from zmon.schema.names import LOSS_SOURCES

BACKWARD, REPORT = (LOSS_SOURCES.index(name) for name in ("backward", "report"))


class Losses:
    """The losses of one rank, by source; `write` writes into its box since which step those of each are not finite."""

    def __init__(self, write: Callable[..., None]) -> None:
        self._write = write
        self._since = [layout.UNKNOWN] * len(LOSS_SOURCES)
        self._latest = self._since.copy()  # the last step with a loss that is not finite
        write(*self._since)

    def note(self, source: int, step: int, loss: float) -> bool:
        """Note a loss of a step; return True if the losses of this source are finite.

        A run of losses that are not ends in a step whose losses are all finite; a step may have several.
        """
        is_finite, since = isfinite(loss), self._since[source]
        if not is_finite:
            self._latest[source] = step
            now = since if since >= 0 else step
        else:
            now = since if step == self._latest[source] else layout.FINITE
        if now != since:
            self._since[source] = now
            self._write(*self._since)
        return now == layout.FINITE
