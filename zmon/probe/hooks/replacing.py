"""Replaces functions of torch by wrappers in all loaded modules, without any effect on the job's output.

A module that did `from torch.distributed import all_reduce` has its own reference to the function. So all loaded
modules are searched, once for all functions together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from zmon.probe.edge.fronts import HIDDEN_FILE_NAME

Function = Callable[..., Any]


def replace(wrappers: dict[Function, Function]) -> None:
    """Replace each function by its wrapper in all loaded modules."""
    by_id = {id(original): hide_frames(wrapper) for original, wrapper in wrappers.items()}
    for module in list(sys.modules.values()):
        try:  # not getattr: it would load a module that is loaded lazily
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        for name, value in list(names.items()):
            if (wrapper := by_id.get(id(value))) is not None:
                names[name] = wrapper


def hide_frames(wrapper: Function) -> Function:
    """Hide the frames of a wrapper from warnings and from torch's compiler, and return the wrapper.

    A warning skips them when it looks for the line to name. The compiler does not compile the wrapper, because compiled
    code would not record anything.
    """
    if isinstance(wrapper, FunctionType):
        wrapper.__code__ = wrapper.__code__.replace(co_filename=HIDDEN_FILE_NAME)
        frames = torch._C._dynamo.eval_frame
        if hasattr(frames, "set_code_exec_strategy"):  # torch 2.8
            skip = frames._FrameAction.SKIP
            frames.set_code_exec_strategy(wrapper.__code__, frames._FrameExecStrategy(skip, skip))
    return wrapper
