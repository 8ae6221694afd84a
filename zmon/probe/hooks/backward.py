"""When the rank computes gradients: everything that runs autograd's engine (torch/autograd/graph.py).

Gradients on a GPU are computed by a thread of the engine while the rank's own waits for it
(torch/csrc/autograd/engine.cpp), so the engine's threads speak for the rank meanwhile: what FSDP
gathers there, the rank waits for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
from torch.autograd import graph

from zmon import probe
from zmon.probe.hooks.replacing import replace
from zmon.probe.rank import PHASE_NUMBER, TRAIN

_BACKWARD = PHASE_NUMBER["backward"]


_installed = False


def install() -> None:
    """Watch the engine, once."""
    global _installed
    if not _installed:
        _installed = True
        replace({graph._engine_run_backward: _watched(graph._engine_run_backward)})


def _watched(engine: Callable[..., Any]) -> Callable[..., Any]:
    is_compiling = torch.compiler.is_dynamo_compiling

    @functools.wraps(engine)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return engine(*args, **kwargs)
        begin = monotonic_ns()
        timeline = probe.current
        # autograd.grad accumulates nothing: forces of a molecule are such a gradient, in evaluation too.
        if (timeline is None or timeline.activity != TRAIN) and kwargs.get("accumulate_grad"):
            timeline = probe.training()
        if timeline is None:
            return engine(*args, **kwargs)
        before, named = timeline.current_phase, timeline.told_phases
        if not named:
            timeline.phase(_BACKWARD)
        timeline.lent += 1
        timeline.overhead_ns += monotonic_ns() - begin
        try:
            return engine(*args, **kwargs)
        finally:
            begin = monotonic_ns()
            timeline.lent -= 1
            if not named:
                timeline.phase(before)
            timeline.overhead_ns += monotonic_ns() - begin

    return run_backward
