"""Infers evaluation: from the first forward in eval mode without gradients until the rank trains again.

A job may evaluate without `torch.no_grad`. Then evaluation begins at the eighth call in a row (`_MANY_CALLS`) of a
model in eval mode, if no backward pass ran between these calls. Training also calls models in eval mode: a frozen part
of the model, or the whole model in the attack of adversarial training. But a backward pass follows after a few calls.

A job may also evaluate in training mode with gradients, as facebookresearch/dlrm does. Then evaluation begins at the
eighth batch in a row from a data set that training has not used, if no backward pass ran between these batches. It ends
at the next batch from a data set of training.

`model.eval()` and `model.train()` put a hook on that model. The forward that shows the new activity removes it. There
is no hook while the rank trains, and never one on modules inside a model. A forward therefore costs no more than
without zmon, and a compiled model is not compiled again.

`update_bn` runs an average of weights (SWA) over the data, in training mode, without gradients and without steps. zmon
wraps this function. Any other forward in training mode without gradients is ignored, because a job with a frozen
teacher has one in each step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import swa_utils
from torch.utils.hooks import RemovableHandle

from zmon import probe
from zmon.probe.hooks import forward
from zmon.probe.hooks.replacing import replace, with_call_before, wrapper_of
from zmon.probe.rank import EVAL, INIT, TRAIN, RankTimeline

# Jobs switch these layers to eval mode in the middle of training, without an evaluation. A model has other layers too.
_LAYERS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.modules.dropout._DropoutNd)
_WRAPPED = ("module", "_fsdp_wrapped_module", "_orig_mod")  # attributes of DDP, FSDP1 and torch.compile

_hooks: dict[int, RemovableHandle] = {}  # the hook of each model, by id of the model
_awaited = TRAIN  # the activity that the hooks wait for
# Training has at most a handful of calls in eval mode before each backward pass. An evaluation with fewer calls is
# missed; it takes no longer than a few steps. The same holds for batches.
_MANY_CALLS = 8
_calls: Counter[int] = Counter()  # in eval mode with gradients, since the last backward pass; by id of the model
_progress = (0, 0)  # at the last of these calls: the step, and its backward passes
_batches: Counter[int] = Counter()  # loaded since the last backward pass; by id of the data set
_progress_of_batches = (0, 0)  # at the last of these batches
_trained: set[int] = set()  # ids of the data sets from which training has loaded batches
_was_seen_by_batches = False  # batches have shown the evaluation that the rank is in
_depth = 0  # of calls of Module.train, which calls itself for each submodule


def install() -> None:
    """Wrap three functions, once: Module.train (which `eval` calls), the compiler of TorchScript, and `update_bn`."""
    if not hasattr(nn.Module.train, "__zmon__"):
        nn.Module.train = _wrap_train(nn.Module.train)
        recursive = torch.jit._recursive
        recursive.create_script_module = with_call_before(recursive.create_script_module, _disarm_all)
        replace({swa_utils.update_bn: with_call_before(swa_utils.update_bn, _on_update_bn)})


def disarm() -> None:
    """Remove all hooks; no forward is awaited any more."""
    _calls.clear()
    while _hooks:
        _hooks.popitem()[1].remove()


def _disarm_all() -> None:
    """Remove the hooks of `forward.py` too, because TorchScript would compile them with the module."""
    disarm()
    forward.disarm()


def _wrap_train(original: Callable[..., Any]) -> Callable[..., Any]:
    @wrapper_of(original)
    def train(self: Any, mode: bool = True) -> Any:
        global _depth
        if torch.compiler.is_compiling():
            return original(self, mode)
        _depth += 1
        try:
            result = original(self, mode)
        finally:
            _depth -= 1
        timeline = probe.current
        if _depth == 0 and timeline is not None and timeline.acts_for_rank() and not isinstance(self, _LAYERS):
            _arm(self, mode, timeline)
        return result

    return train


@probe.guarded
def _arm(model: nn.Module, mode: bool, timeline: RankTimeline) -> None:
    """Wait for a forward of this model in the mode that it has now, unless the rank does that already."""
    global _awaited
    awaited = TRAIN if mode else EVAL
    if awaited != _awaited:
        disarm()
        _awaited = awaited
    # Before its first step a rank is in INIT, and an evaluation is a part of that.
    if timeline.activity not in (INIT, awaited) and not timeline.explicit_activity:
        for part in _wrapped_models(model):
            hook = _hooks.get(id(part))
            if hook is None or hook.id not in part._forward_pre_hooks:  # or that of a freed model with this id
                _hooks[id(part)] = part.register_forward_pre_hook(_Hook())
                _calls.pop(id(part), None)


class _Hook:
    """A forward hook; copied or saved with a model, it becomes a function that does nothing and needs no zmon."""

    def __call__(self, model: nn.Module, _: Any) -> None:
        _on_forward(model)

    def __reduce__(self) -> tuple[Any, ...]:
        return forward.reduce_to_nothing()


@probe.guarded
def _on_update_bn() -> None:
    """Count the pass of `update_bn` over the data as evaluation."""
    timeline = probe.current
    if timeline is not None and timeline.activity == TRAIN and not timeline.explicit_activity:
        timeline.turn_to(EVAL)


def _wrapped_models(model: Any) -> Iterator[nn.Module]:
    """Yield the model and the models that it wraps, down to the user's own."""
    if isinstance(model, torch.jit.ScriptModule):
        return  # it takes no hooks
    yield model
    for name in _WRAPPED:
        inner = model.__dict__.get("_modules", {}).get(name)
        if inner is not None:
            yield from _wrapped_models(inner)


@probe.guarded
def _on_forward(model: nn.Module) -> None:
    """Turn to the activity that this forward shows, and wait for no other forward."""
    if torch.compiler.is_compiling():
        return
    timeline = probe.current
    if timeline is None or timeline.explicit_activity:
        return
    has_gradients = torch.is_grad_enabled()
    if model.training and not has_gradients:
        return  # perhaps of a frozen teacher
    if not model.training and has_gradients and _count_call(model, timeline) < _MANY_CALLS:
        return  # perhaps of a frozen part of a model that trains
    activity = TRAIN if model.training else EVAL
    if timeline.activity != activity:
        timeline.turn_to(activity)
    disarm()


def _count_call(model: nn.Module, timeline: RankTimeline) -> int:
    """Count a call in eval mode with gradients. Return how many this model has had since the last backward pass."""
    global _progress
    progress = _progress_of(timeline)
    if progress != _progress:
        _calls.clear()
        _progress = progress
    _calls[id(model)] += 1
    return _calls[id(model)]


def _progress_of(timeline: RankTimeline) -> tuple[int, int]:
    """Return the current step, and how many backward passes it has had."""
    return timeline.step, timeline.ledger.samples.backwards


@probe.guarded
def note_batch(data_set: int) -> None:
    """Note a batch that a DataLoader has returned, and turn to the activity that it shows.

    `data_set` is the id of its data set. A job may load many batches at once to train on them later (gradient
    accumulation). So a batch shows an evaluation only if its data set was never trained on, and another one was.
    """
    global _progress_of_batches, _was_seen_by_batches
    timeline = probe.current
    if timeline is None or timeline.explicit_activity or not timeline.acts_for_rank():
        return
    _was_seen_by_batches &= timeline.activity == EVAL
    progress = _progress_of(timeline)
    if progress != _progress_of_batches:  # the rank has trained on the batches since the last backward pass
        _trained.update(_batches)
        _batches.clear()
        _progress_of_batches = progress
    if data_set in _trained:
        _batches.clear()
        if _was_seen_by_batches:
            timeline.turn_to(TRAIN)
        return
    _batches[data_set] += 1
    if _trained and timeline.activity == TRAIN and _batches[data_set] >= _MANY_CALLS:
        timeline.turn_to(EVAL)
        _was_seen_by_batches = True
