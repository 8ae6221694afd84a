"""Infers the data phase, the time in DataLoader from its start to each batch, and the samples of the batches.

The time between a batch and the backward pass is the forward phase, including the copy to the device and the loss. Data
that a job reads without DataLoader is not recognized, and the time counts for the phase in which it is read.

The start of a DataLoader in the middle of training, until its first batch, is the activity `loader_start`: it may start
worker processes, which takes much longer than a step. A job that starts a loader for each batch is an exception. Its
starts belong to its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import dataloader

from zmon import probe
from zmon.probe.hooks import evaluation
from zmon.probe.hooks.batches import loaded_samples
from zmon.probe.hooks.replacing import wrapper_of
from zmon.probe.rank import LOADER_START, PHASE_NUMBER, TRAIN, RankTimeline
from zmon.probe.samples import DECLARED

_DATA, _FORWARD = PHASE_NUMBER["data"], PHASE_NUMBER["forward"]
_MIN_STEPS = 2  # steps between two starts, at least; with fewer, the job starts a loader for each batch

_started_at_step = 0  # the step in which a loader was last started


def install() -> None:
    """Wrap DataLoader and its iterators, once."""
    iterator, loader = dataloader._BaseDataLoaderIter, dataloader.DataLoader
    if not hasattr(iterator.__next__, "__zmon__"):
        iterator.__next__ = _wrap_loading(iterator.__next__, is_start=False)
        loader.__iter__ = _wrap_loading(loader.__iter__, is_start=True)


def _wrap_loading(original: Callable[[Any], Any], is_start: bool) -> Callable[[Any], Any]:
    """Wrap a method that starts a loader, or that returns a batch."""

    @wrapper_of(original)
    def loading(self: Any) -> Any:
        timeline = probe.current
        if timeline is None:
            return original(self)
        if is_start:
            _begin_start(timeline)
        is_explicit, phase_after = timeline.explicit_phases, timeline.current_phase
        is_nested = phase_after == _DATA and not is_explicit  # a loader within a loader
        if not is_explicit:
            timeline.phase(_DATA)
        try:
            result = original(self)
            if not is_start and not is_nested:
                phase_after = _FORWARD
                _count_samples(timeline, self, result)
                evaluation.note_batch(id(self._dataset))
            return result
        finally:
            if not is_start and timeline.activity == LOADER_START:
                timeline.turn_to(TRAIN)  # the loader has returned its first batch, or failed
            if not is_explicit:
                timeline.phase(phase_after)

    return loading


@probe.guarded
def _count_samples(timeline: RankTimeline, iterator: Any, batch: Any) -> None:
    counter = timeline.ledger.samples
    if counter.source != DECLARED:
        samples = loaded_samples(iterator, batch)
        if samples is not None:
            counter.load(id(iterator._dataset), samples)


@probe.guarded
def _begin_start(timeline: RankTimeline) -> None:
    """Turn to `loader_start`, unless a loader was started just before or the job marks its activities itself."""
    global _started_at_step
    if not timeline.acts_for_rank() or timeline.activity != TRAIN:
        return
    step, previous = timeline.step, _started_at_step
    _started_at_step = step
    if not timeline.explicit_activity and step - previous >= _MIN_STEPS:
        timeline.turn_to(LOADER_START)
