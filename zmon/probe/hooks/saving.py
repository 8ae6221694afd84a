"""Infers checkpoints: from a call of torch.save or torch.distributed.checkpoint until the rank trains again.

A torch.save into an io.BytesIO is not a checkpoint: torch also does that to pickle a tensor or to send it to another
process.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch

from zmon import probe
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import CHECKPOINT, INIT


def install() -> None:
    """Wrap the functions that save, once."""
    if not hasattr(torch.save, "__zmon__"):
        replace({torch.save: _with_checkpoint_activity(torch.save)})
        when_imported("torch.distributed.checkpoint.state_dict_saver", _wrap_distributed_save)


def _wrap_distributed_save(saver: Any) -> None:
    replace({save: _with_checkpoint_activity(save) for save in (saver.save, saver.async_save, saver.save_state_dict)})


def _with_checkpoint_activity(save: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(save)
    def saving(*args: Any, **kwargs: Any) -> Any:
        timeline = probe.current
        target = kwargs.get("f", args[1] if len(args) > 1 else None)
        if timeline is None or timeline.activity == INIT or isinstance(target, io.BytesIO):
            return save(*args, **kwargs)
        if timeline.explicit_activity or not timeline.acts_for_rank():
            return save(*args, **kwargs)
        if timeline.activity != CHECKPOINT:
            timeline.turn_to(CHECKPOINT)
        result = save(*args, **kwargs)
        timeline.ledger.saved()
        return result

    return saving
