"""Infers checkpoints: from a call of a function that saves one until the rank trains again.

A torch.save into an io.BytesIO is not a checkpoint: torch also does that to pickle a tensor or to send it to another
process. Lightning and safetensors write their files without torch.save. A save in another thread, beside the training,
has a time but is not an activity of the rank. `async_save` returns before it has written. Its checkpoint counts once it
is complete, because the work since the last checkpoint is lost if it never is.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

from zmon import probe
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import CHECKPOINT, DONE, INIT, RankTimeline

_SAVERS = {  # the functions of other modules that save a checkpoint
    "torch.distributed.checkpoint.state_dict_saver": ("save", "async_save", "save_state_dict"),
    "safetensors.torch": ("save_file", "save_model"),
    # Lightning and its older package: torch.save into memory, then a write to a local or remote file system.
    "lightning.fabric.utilities.cloud_io": ("_atomic_save",),
    "lightning_fabric.utilities.cloud_io": ("_atomic_save",),
    "megatron.core.dist_checkpointing.serialization": ("save",),
}


def install() -> None:
    """Wrap the functions that save, once."""
    if not hasattr(torch.save, "__zmon__"):
        replace({torch.save: _with_checkpoint_activity(torch.save)})
        for module in _SAVERS:
            when_imported(module, _wrap_savers)


def _wrap_savers(module: Any) -> None:
    savers = [getattr(module, name) for name in _SAVERS[module.__name__] if hasattr(module, name)]
    replace({save: _with_checkpoint_activity(save) for save in savers})


def _with_checkpoint_activity(save: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(save)
    def saving(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        target = kwargs.get("f", args[1] if len(args) > 1 else None)
        if timeline is None or timeline.activity == INIT or isinstance(target, io.BytesIO):
            return save(*args, **kwargs)
        is_rank = timeline.acts_for_rank()  # else a thread that saves while the rank trains
        if is_rank and timeline.explicit_activity:
            return save(*args, **kwargs)
        if is_rank and timeline.activity not in (CHECKPOINT, DONE):  # no step is due of a rank that is done
            timeline.turn_to(CHECKPOINT)
        result = save(*args, **kwargs)
        _note_saved(timeline, result)
        if is_rank and timeline.activity in (CHECKPOINT, DONE):
            timeline.turn_to(timeline.activity)  # writes a boundary, and with it the time of the checkpoint
        return result

    return saving


def _note_saved(timeline: RankTimeline, result: Any) -> None:
    """Note that a checkpoint is complete, at once or when the future that the function returned has a result."""

    def end(written: Future[Any]) -> None:
        if not written.cancelled() and written.exception() is None:
            timeline.ledger.note_checkpoint()

    written = getattr(result, "upload_completion", result)  # of torch's AsyncSaveResponse
    if isinstance(written, Future):
        written.add_done_callback(end)
    else:
        timeline.ledger.note_checkpoint()
