"""Infers compilation: from the start to the end of each run of torch's compiler (torch/_dynamo/callback.py).

The methods that call torch's callbacks are wrapped, because `torch._dynamo.reset` removes all callbacks. torch calls
them for the outermost compilation only, also for the compilation of a backward pass and the recording of CUDA graphs.
The compiler waits for its worker processes within this time.
"""

from __future__ import annotations

from typing import Any

from zmon import probe
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import with_call_before
from zmon.probe.rank import COMPILE, DONE, OTHER, TRAIN

num_compilations = 0  # of this process so far
_interrupted = (TRAIN, OTHER)  # activity and phase of the rank before the compilation


def install() -> None:
    """Wrap the compiler's callbacks once it is imported."""
    when_imported("torch._dynamo.callback", _wrap_callbacks)


def _wrap_callbacks(callback: Any) -> None:
    handler = callback.CompilationCallbackHandler
    if not hasattr(handler.run_start_callbacks, "__zmon__"):
        handler.run_start_callbacks = with_call_before(handler.run_start_callbacks, _on_start)
        handler.run_end_callbacks = with_call_before(handler.run_end_callbacks, _on_end)


@probe.guarded
def _on_start() -> None:
    global _interrupted, num_compilations
    num_compilations += 1
    timeline = probe.current
    if timeline is not None and timeline.acts_for_rank() and timeline.activity not in (COMPILE, DONE):
        _interrupted = timeline.activity, timeline.current_phase
        timeline.turn_to(COMPILE)


@probe.guarded
def _on_end() -> None:
    timeline = probe.current
    if timeline is not None and timeline.acts_for_rank() and timeline.activity == COMPILE:
        activity, phase = _interrupted
        timeline.turn_to(activity)
        timeline.phase(phase)
