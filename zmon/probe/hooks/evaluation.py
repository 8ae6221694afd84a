"""When the rank evaluates: from the first forward in eval mode without gradients until it trains again.

A model says so itself: `model.eval()` puts a hook on that model, `model.train()` another, each gone at the first
forward it waited for. Nothing is hooked while the rank trains, and nothing at all on modules inside a model: a forward
costs what it cost, and a compiled model is not compiled anew.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from zmon import probe
from zmon.probe.hooks.replacing import unseen
from zmon.probe.rank import EVAL, INIT, TRAIN, RankTimeline

# Frozen one by one in the middle of training: no model is one of these.
_PARTS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.modules.dropout._DropoutNd)
_WRAPPED = ("module", "_fsdp_wrapped_module", "_orig_mod")  # of DDP, FSDP1, torch.compile

_hooks: dict[int, Any] = {}  # by model: one wait for each
_waits_for = TRAIN
_depth = 0  # Module.train calls itself for each part


def install() -> None:
    """Watch models change their mode, once."""
    if not hasattr(nn.Module.train, "__zmon__"):
        nn.Module.train = unseen(_watched(nn.Module.train))
        recursive = torch.jit._recursive  # TorchScript compiles a module with its hooks
        recursive.create_script_module = _disarmed(recursive.create_script_module)


def disarm() -> None:
    """The rank trains: nothing is waited for any more."""
    while _hooks:
        _hooks.popitem()[1].remove()


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
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
        if _depth == 0 and timeline is not None and timeline.mine() and not isinstance(self, _PARTS):
            _arm(self, mode, timeline)
        return result

    train.__zmon__ = True  # type: ignore[attr-defined]
    return train


@probe.guarded
def _arm(model: nn.Module, mode: bool, timeline: RankTimeline) -> None:
    global _waits_for
    waits_for = TRAIN if mode else EVAL
    if waits_for != _waits_for:
        disarm()
        _waits_for = waits_for
    if timeline.activity not in (INIT, waits_for) and not timeline.told_activity:
        for part in _shells(model):
            if id(part) not in _hooks:
                _hooks[id(part)] = part.register_forward_pre_hook(_Hook())


class _Hook:
    """Notices one forward. What the job copies or saves meanwhile holds a hook that does nothing and is not zmon's."""

    def __call__(self, model: nn.Module, _: Any) -> None:
        _forward(model)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (dict.get, {})  # {}.get(model, arguments): the arguments as they are


def _disarmed(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        disarm()
        return original(*args, **kwargs)

    return call


def _shells(model: Any) -> Iterator[nn.Module]:
    """The model and what it wraps, down to the user's own."""
    if isinstance(model, torch.jit.ScriptModule):
        return  # takes no hooks
    yield model
    for name in _WRAPPED:
        inner = model.__dict__.get("_modules", {}).get(name)
        if inner is not None:
            yield from _shells(inner)


@probe.guarded
def _forward(model: nn.Module) -> None:
    if torch.compiler.is_compiling():
        return
    timeline = probe.current
    if timeline is None or timeline.told_activity or model.training != torch.is_grad_enabled():
        return  # a frozen part in training, or a sanity check in training mode
    activity = TRAIN if model.training else EVAL
    if timeline.activity != activity:
        timeline.turn_to(activity)
    disarm()
