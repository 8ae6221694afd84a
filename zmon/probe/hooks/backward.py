"""Infers the backward phase from calls of autograd's engine (torch/autograd/graph.py), and notes the loss of each.

On a GPU, a thread of the engine computes the gradients while the rank's own thread waits for it
(torch/csrc/autograd/engine.cpp). During this wait the engine's threads act for the rank, for example when FSDP
gathers parameters there.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import torch
from torch.autograd import graph

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks import ddp, forward
from zmon.probe.hooks.loss import note_loss
from zmon.probe.hooks.reducer import reducers
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import OTHER, PHASE_NUMBER, TRAIN

_BACKWARD = PHASE_NUMBER["backward"]
_installed = False


def install() -> None:
    """Wrap the engine, once."""
    global _installed
    if not _installed:
        _installed = True
        engine = graph._engine_run_backward
        replace({engine: _wrap_engine(ddp.wrap_engine(engine), engine)})


def _wrap_engine(engine: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    is_compiling = torch.compiler.is_dynamo_compiling

    @wrapper_of(engine)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return engine(*args, **kwargs)
        begin = monotonic_ns()
        timeline = probe.current
        was_training = timeline is not None and timeline.activity == TRAIN
        # A backward pass of training accumulates gradients. autograd.grad does not, and evaluation uses it too, for
        # example for the forces of a molecule.
        if not was_training and kwargs.get("accumulate_grad"):
            timeline = probe.start_training()
        if timeline is None:
            return engine(*args, **kwargs)
        phase_before, is_explicit = timeline.current_phase, timeline.explicit_phases
        if not is_explicit:
            timeline.phase(_BACKWARD)
        is_pass = timeline.autograd_depth == 0 and timeline.activity == TRAIN and timeline.acts_for_rank()
        if is_pass and kwargs.get("accumulate_grad"):
            note_loss(timeline, args[0])
        timeline.autograd_depth += 1
        timeline.overhead_ns += monotonic_ns() - begin
        try:
            return engine(*args, **kwargs)
        finally:
            begin = monotonic_ns()
            timeline.autograd_depth -= 1
            if not is_explicit:
                timeline.phase(forward.phase_after_backward(phase_before) if is_pass else phase_before)
            if is_pass:
                timeline.ledger.samples.end_backward()
            timeline.overhead_ns += monotonic_ns() - begin
            if is_pass and was_training and phase_before == OTHER and not is_explicit:
                forward.note_unmarked_pass()

    fronts.connect(reducers=reducers, forward_names=vars(forward))
    fronts.connect(note_unmarked_pass=forward.note_unmarked_pass, note_loss=note_loss)
    return fronts.front("engine", run_backward, original)
