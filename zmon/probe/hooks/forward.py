"""Infers the forward phase of a job that loads no batches with DataLoader: from the call of its model to backward.

A backward pass that begins in phase `other` shows that nothing marked its forward pass. Then a hook is put on the
outermost models of the process, such as an engine or a wrapper. If none of them is called before the next such pass,
their members get the hook, level by level. Modules inside a model that is called have no hook, and a job whose batches
come from DataLoader has none at all. The input of the model also gives the samples of the step.

A module with a hook leaves the short path of `Module._call_impl`, which costs more than the hook does. So the calls of
DistributedDataParallel are seen by a wrapper of its `forward` instead.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks.batches import input_size
from zmon.probe.rank import OTHER, PHASE_NUMBER, TRAIN
from zmon.probe.samples import MODEL

_FORWARD = PHASE_NUMBER["forward"]
_MAX_SEARCHES = 16  # each one visits all objects of the process once, which takes up to a few tenths of a second
_NUM_LEVELS = 4  # engine, wrapper, the job's own wrapper, model
_MAX_HOOKS = 64

_hooks: dict[int, RemovableHandle] = {}  # the hook of each module, by id of the module
_plain_forward: Callable[..., Any] | None = None  # of DistributedDataParallel, while its calls are watched
_front: Callable[..., Any] | None = None  # what is in its place
_unmarked = 0  # backward passes in a row whose forward pass nothing marked, without the first after a call of a model
_searches = _level = 0
_marked_by_call = False  # the current phase began with the call of a model
fronts.connect(tensor_type=torch.Tensor, compiler_names=vars(torch.compiler), is_grad_enabled=torch.is_grad_enabled)


def phase_after_backward(phase_before: int) -> int:
    """Return the phase to resume after a backward pass: the call of a model marks only the time until that pass."""
    global _marked_by_call
    marked_by_call, _marked_by_call = _marked_by_call, False
    return OTHER if marked_by_call and phase_before == _FORWARD else phase_before


def note_unmarked_pass() -> None:
    """Note that a backward pass began in phase `other`; search for the model after 1, 2, 4, 8, … such passes."""
    global _unmarked
    _unmarked += 1
    if _unmarked > 0 and _unmarked & (_unmarked - 1) == 0 and _searches < _MAX_SEARCHES:
        _search()


def disarm() -> None:
    """Remove all hooks, and the wrapper of DistributedDataParallel; no call of a model is seen any more."""
    global _plain_forward
    while _hooks:
        _hooks.popitem()[1].remove()
    if _plain_forward is not None and DistributedDataParallel.forward is _front:  # else the job has wrapped it
        DistributedDataParallel.forward, _plain_forward = _plain_forward, None


@probe.guarded
def _search() -> None:
    """Watch the calls of the outermost models that train, or of their members `_level` levels below."""
    global _hooks, _searches, _level
    _searches += 1
    _hooks = {module: hook for module, hook in _hooks.items() if hook.hooks_dict_ref() is not None}  # not of freed ones
    modules = [value for value in gc.get_objects() if issubclass(type(value), nn.Module)]
    members = {id(member) for module in modules for member in _members(module)}
    layer = [module for module in modules if id(module) not in members and _is_trained(module)]
    for _ in range(_level):
        layer = [member for module in layer for member in _members(module) if member is not None]
    _level = (_level + 1) % _NUM_LEVELS
    for module in layer:
        if not _can_take_hooks(module):
            continue
        if isinstance(module, DistributedDataParallel):
            _watch_ddp()
        elif id(module) not in _hooks and len(_hooks) < _MAX_HOOKS:
            hook = fronts.front("call_of_model", _Hook())
            _hooks[id(module)] = module.register_forward_pre_hook(hook, prepend=True, with_kwargs=True)


def _members(module: nn.Module) -> Iterable[nn.Module | None]:
    members: dict[str, nn.Module | None] = module.__dict__.get("_modules", {})
    return members.values()


def _is_trained(module: nn.Module) -> bool:
    return module.training and any(parameter.requires_grad for parameter in module.parameters())


def _can_take_hooks(module: nn.Module) -> bool:
    """Return False for a module that is compiled together with its hooks."""
    return not isinstance(module, torch.jit.ScriptModule) and getattr(module, "_compiled_call_impl", None) is None


def _watch_ddp() -> None:
    """Watch the calls of all modules of DistributedDataParallel."""
    global _plain_forward, _front
    if _plain_forward is None:
        _plain_forward = DistributedDataParallel.forward
        _front = fronts.front("forward", _wrap_forward(_plain_forward), _plain_forward)
        DistributedDataParallel.forward = _front


def _wrap_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            _on_call(self, args, kwargs)
        return original(self, *args, **kwargs)

    return forward


class _Hook:
    """A forward hook; copied or saved with a model, it becomes a function that does nothing and needs no zmon."""

    def __init__(self) -> None:
        self.__zmon_reduce__ = reduce_to_nothing  # for its front

    def __call__(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            _on_call(model, args, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_to_nothing()


def reduce_to_nothing() -> tuple[Any, ...]:
    """Return how pickle makes a function that takes any arguments and returns None."""
    return getattr, (contextlib.nullcontext(), "__exit__")


@probe.guarded
def _on_call(model: nn.Module, args: Any, kwargs: Any) -> None:
    global _unmarked, _level, _marked_by_call
    timeline = probe.current
    if timeline is None or timeline.activity != TRAIN or timeline.autograd_depth or not timeline.acts_for_rank():
        return  # in an autograd thread: an activation checkpoint computes again
    if not (model.training and torch.is_grad_enabled()):
        return
    _unmarked, _level = -1, 0  # -1: one unmarked pass may follow an evaluation, because it ends only after this hook
    if timeline.current_phase == OTHER and not timeline.explicit_phases:
        timeline.phase(_FORWARD)
        _marked_by_call = True
    counter = timeline.ledger.samples
    if counter.source in ("", MODEL):
        samples = input_size((args, kwargs))
        if samples is not None:
            counter.call(id(model), samples)
