"""The samples of this rank's steps, inferred from its batches for jobs that do not report them with `zmon.work`.

A batch of a DataLoader counts when it is loaded. Without a DataLoader the input of the model counts. Several batches of
one step (gradient accumulation) are added up. A call of `zmon.work(samples=…)` ends the inference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from zmon.schema.names import SAMPLES_SOURCES

DECLARED, LOADER, MODEL = SAMPLES_SOURCES


class SampleCounter:
    """The samples of the current step so far; `on_source` is called when their source becomes known or changes."""

    def __init__(self) -> None:
        self.source = ""  # empty: the samples are unknown
        self.on_source: Callable[[str], None] | None = None
        self._loaded: dict[int, int] = {}  # samples loaded in this step, by data set
        self._last: tuple[int, int] | None = None  # the last batch, as (data set, samples), if no step has ended since
        # Of the first model that was called in this step: its id, the samples that it received, and its calls.
        self._model = self._called = self._calls = 0
        self.backwards = 0  # the backward passes of this step so far

    def declare(self) -> None:
        """Note that the job reports its samples itself."""
        self._set_source(DECLARED)

    def load(self, data_set: int, samples: int) -> None:
        """Add a batch that a DataLoader of this data set returned."""
        if self.source != DECLARED:
            self._loaded[data_set] = self._loaded.get(data_set, 0) + samples
            self._last = data_set, samples

    def call(self, model: int, samples: int) -> None:
        """Add a batch that a model received in training; only the first model of a step counts."""
        if self._calls == 0:
            self._model = model
        if model == self._model:
            self._called += samples
            self._calls += 1

    def end_backward(self) -> None:
        """Note that a backward pass of training has ended."""
        self.backwards += 1

    def end_step(self, is_stage: bool) -> int | None:
        """Return the inferred samples of the step that ends now; None if they are unknown or the job reports them.

        `is_stage`: the rank sends to or receives from single ranks. Then it is a stage of a pipeline, and all stages
        see the same samples, which must not be added up.
        """
        if self.source == DECLARED:
            return None
        source, samples = ("", None) if is_stage else self._inferred()
        if source:
            self._set_source(source)
        self._clear()
        return samples

    def discard_step(self) -> None:
        """Forget the batches of the step, because the activity changes; the last batch may be trained on later."""
        last = self._last
        self._clear()
        if last is not None:
            self.load(*last)

    def _inferred(self) -> tuple[str, int | None]:
        """Return the source of the samples of this step, and their number; "" and None if they are unknown."""
        if self._loaded:  # two data sets, such as labelled and unlabelled images, are loaded side by side
            return LOADER, max(self._loaded.values())
        if self._calls and self.backwards and self.source != LOADER:
            # A model that is called twice for one backward pass sees the same samples twice, for example both views.
            return MODEL, self._called * min(self._calls, self.backwards) // self._calls
        return "", None

    def _clear(self) -> None:
        self._loaded, self._last = {}, None
        self._model = self._called = self._calls = self.backwards = 0

    def _set_source(self, source: str) -> None:
        if source != self.source:
            self.source = source
            if self.on_source is not None:
                with contextlib.suppress(Exception):  # a step must not be lost because its source is not published
                    self.on_source(source)
