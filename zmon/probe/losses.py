"""Marks the step from which the losses of this rank are NaN or infinite.

After the first NaN, averaged gradients break the weights of all ranks, so every rank has NaN in the next step. A reader
that looks ten times a second cannot tell who was first. The box is written only when a run of steps with such losses
begins or ends.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from zmon.box import layout
from zmon.schema.names import LOSS_SOURCES

BACKWARD, REPORT = (LOSS_SOURCES.index(name) for name in ("backward", "report"))


class Losses:
    """The first step of the current run of NaN or infinite losses, for each source of losses.

    It is UNKNOWN before the first loss, and FINITE without such a run. `write` writes it for all sources into the box.
    """

    def __init__(self, write: Callable[..., None]) -> None:
        self._write = write
        self._since = [layout.UNKNOWN] * len(LOSS_SOURCES)
        self._last_bad = self._since.copy()  # the last step with a loss that is not finite
        self._last = self._since.copy()  # the last step with a loss
        write(*self._since)

    def note(self, source: int, step: int, loss: float) -> bool:
        """Note a loss of a step; return True if the losses of this source are finite.

        A step may have several losses, such as those of two models, and any of them may be bad. So a run ends only when
        a step follows one whose losses were all finite, or when the job goes back to an earlier step.
        """
        since, last_bad, last = self._since[source], self._last_bad[source], self._last[source]
        is_in_run = since not in (layout.UNKNOWN, layout.FINITE)
        self._last[source] = step
        if not isfinite(loss):
            self._last_bad[source] = step
            since = since if is_in_run else step
        elif (
            not is_in_run
            or step < last_bad  # the job has gone back to an earlier step
            or (step != last and last != last_bad)  # the losses of the step before were finite
        ):
            since = layout.FINITE
        if since != self._since[source]:
            self._since[source] = since
            self._write(*self._since)
        return since == layout.FINITE
