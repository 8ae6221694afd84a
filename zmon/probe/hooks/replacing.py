"""Replaces functions of torch by wrappers in all loaded modules, without any effect on the job's output.

A module that did `from torch.distributed import all_reduce` has its own reference to the function. So all loaded
modules are searched. A search takes milliseconds, so the hooks share one (`one_search`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

import torch

from zmon.probe.edge.fronts import HIDDEN_FILE_NAME

Function = Callable[..., Any]
_collected: dict[Function, Function] | None = None  # what `one_search` will put in place; None: outside its block


@contextmanager
def one_search() -> Iterator[None]:
    """Put the wrappers that are given to `replace` in this block in place at its end, by one search of all modules."""
    global _collected
    collected: dict[Function, Function] = {}
    _collected = collected
    try:
        yield
    finally:
        _collected = None
        if collected:
            replace(collected)


def replace(wrappers: dict[Function, Function]) -> None:
    """Replace each function by its wrapper in all loaded modules, at the end of a block of `one_search`."""
    if _collected is not None:
        _collected.update(wrappers)
        return
    by_id = {id(original): wrapper for original, wrapper in wrappers.items()}
    for module in list(sys.modules.values()):
        try:  # not getattr: it would load a module that is loaded lazily
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        if by_id.keys().isdisjoint(map(id, list(names.values()))):  # fast, for there are tens of thousands of names
            continue
        for name, value in list(names.items()):
            if (wrapper := by_id.get(id(value))) is not None:
                names[name] = wrapper


def wrapper_of(original: Function) -> Callable[[Function], Function]:
    """Decorate a wrapper: it has the name of the original and the mark `__zmon__`, and its frames are hidden."""

    def decorate(wrapper: Function) -> Function:
        functools.update_wrapper(wrapper, original).__zmon__ = True  # type: ignore[attr-defined]
        return hide_frames(wrapper)

    return decorate


def with_call_before(original: Function, callback: Callable[[], None]) -> Function:
    """Return a wrapper of a function that calls `callback` and then the function."""

    @wrapper_of(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        callback()
        return original(*args, **kwargs)

    return call


def hide_frames(wrapper: Function) -> Function:
    """Hide the frames of a wrapper from warnings and from torch's compiler, and return the wrapper.

    A warning skips them when it looks for the line to name. The compiler does not compile the wrapper, because compiled
    code would not record anything.
    """
    if isinstance(wrapper, FunctionType):
        wrapper.__code__ = _hidden(wrapper.__code__)
    return wrapper


@functools.cache  # the wrappers that one function makes share their code
def _hidden(code: CodeType) -> CodeType:
    hidden = code.replace(co_filename=HIDDEN_FILE_NAME)
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(hidden, frames._FrameExecStrategy(skip, skip))
    return hidden
