"""Infers the data phase, the time in DataLoader from its start to each batch, and the samples of the batches.

The time between a batch and the backward pass is the forward phase, including the copy to the device and the loss. Data
that a job reads without DataLoader is not recognized, and the time counts for the phase in which it is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from zmon import probe
from zmon.probe.hooks.batches import samples_loaded
from zmon.probe.hooks.replacing import hide_frames
from zmon.probe.rank import PHASE_NUMBER, RankTimeline
from zmon.probe.samples import DECLARED

_DATA, _FORWARD = PHASE_NUMBER["data"], PHASE_NUMBER["forward"]


def install() -> None:
    """Wrap DataLoader and its iterators, once."""
    iterator, loader = dataloader._BaseDataLoaderIter, dataloader.DataLoader
    if not hasattr(iterator.__next__, "__zmon__"):
        iterator.__next__ = hide_frames(_wrap_loading(iterator.__next__, next_phase=_FORWARD))
        loader.__iter__ = hide_frames(_wrap_loading(loader.__iter__, next_phase=None))


def _wrap_loading(original: Callable[[Any], Any], next_phase: int | None) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def loading(self: Any) -> Any:
        timeline = probe.current
        if timeline is None:
            return original(self)
        if timeline.explicit_phases:
            result = original(self)
            if next_phase is not None:
                _count_samples(timeline, self, result)
            return result
        phase_after = phase_before = timeline.current_phase
        timeline.phase(_DATA)
        try:
            result = original(self)
            is_nested = phase_before == _DATA  # a loader within a loader
            phase_after = phase_before if next_phase is None or is_nested else next_phase
            if phase_after == next_phase:
                _count_samples(timeline, self, result)
            return result
        finally:
            timeline.phase(phase_after)

    loading.__zmon__ = True  # type: ignore[attr-defined]
    return loading


@probe.guarded
def _count_samples(timeline: RankTimeline, iterator: Any, batch: Any) -> None:
    counter = timeline.ledger.samples
    if counter.source != DECLARED:
        samples = samples_loaded(iterator, batch)
        if samples is not None:
            counter.load(id(iterator._dataset), samples)
