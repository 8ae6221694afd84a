"""Puts watched functions in the place of torch's, wherever a module knows them by name, and leaves no trace in output.

A module that did `from torch.distributed import all_reduce` holds the function itself, so all loaded modules are looked
through, once for all functions together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

# warnings.warn(stacklevel=…) passes over frames of the import system, which it knows by these two words in the file
# name (CPython, Python/_warnings.c, is_internal_frame): so a warning of torch still names the line of the job.
_UNSEEN = "<zmon, passed over like importlib._bootstrap>"

Function = Callable[..., Any]


def replace(wrappers: dict[Function, Function]) -> None:
    """Put each wrapper in the place of the function it belongs to."""
    by_id = {id(original): unseen(wrapper) for original, wrapper in wrappers.items()}
    for module in list(sys.modules.values()):
        try:  # not by getattr: a module that loads itself when first used would do so
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        for name, value in list(names.items()):
            if (wrapper := by_id.get(id(value))) is not None:
                names[name] = wrapper


def unseen(wrapper: Function) -> Function:
    """The wrapper, which a warning passes over when it looks for the line to blame, and a compiler when it compiles.

    Called from a compiled module it runs as it is and is not compiled itself: that would fold away what it notes.
    """
    if isinstance(wrapper, FunctionType):
        wrapper.__code__ = wrapper.__code__.replace(co_filename=_UNSEEN)
        frames = torch._C._dynamo.eval_frame
        if hasattr(frames, "set_code_exec_strategy"):  # torch 2.8
            skip = frames._FrameAction.SKIP
            frames.set_code_exec_strategy(wrapper.__code__, frames._FrameExecStrategy(skip, skip))
    return wrapper
