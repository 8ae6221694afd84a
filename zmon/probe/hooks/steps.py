"""Infers the end of a training step: after the update by the last optimizer that takes part in it.

The hooks are torch's global optimizer hooks. Gradient accumulation has one update for many batches, which is one step.
An update that AMP skips is not a step, because it does not call the hooks. The exception is a fused optimizer on a GPU,
which is called in any case. Only the device knows that it did nothing, so this counts as a step.
"""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks.fresh_optimizers import FreshOptimizers
from zmon.probe.hooks.rounds import Rounds
from zmon.probe.rank import OTHER, PHASE_NUMBER, TRAIN

_OPTIMIZER = PHASE_NUMBER["optimizer"]
_rounds, _fresh = Rounds(), FreshOptimizers()
_running: list[int] = []  # optimizers that are in `step`, innermost last; only the outermost one counts
_installed = False


def install() -> None:
    """Register the hooks for all optimizers, once."""
    global _installed
    if not _installed:
        _installed = True
        fronts.connect(running_optimizers=_running, rounds=_rounds)
        register_optimizer_step_pre_hook(fronts.front("update_begin", _on_update_begin))
        register_optimizer_step_post_hook(fronts.front("update_end", _on_update_end))


@probe.guarded
def _on_update_begin(optimizer: Any, *_: Any) -> None:
    timeline = probe.current
    if timeline is None or timeline.activity != TRAIN:
        timeline = probe.start_training()
    if timeline is None or not timeline.acts_for_rank():
        return
    if timeline.explicit_activity and timeline.activity != TRAIN:
        return  # the job has marked another activity; it may be creating an optimizer's state, for example
    if id(optimizer) in _running:  # it raised in its last step, or calls the step of its base class
        del _running[_running.index(id(optimizer)) :]
    _running.append(id(optimizer))
    if len(_running) > 1:
        return
    if not timeline.explicit_steps:
        if (predecessor := _fresh.predecessor(optimizer)) is not None:
            _rounds.replace(predecessor, id(optimizer))
        if _rounds.is_open and not timeline.step_pending:
            _rounds.end()
        if _rounds.begin_update(id(optimizer)):
            timeline.end_step()
    if not timeline.explicit_phases:
        timeline.phase(_OPTIMIZER)


@probe.guarded
def _on_update_end(optimizer: Any, *_: Any) -> None:
    timeline = probe.current
    if timeline is None or id(optimizer) not in _running or not timeline.acts_for_rank():
        return None
    del _running[_running.index(id(optimizer)) :]
    if _running:
        return None
    if not timeline.explicit_steps and not _is_skipped(optimizer):
        if _rounds.end_update(id(optimizer)):
            return timeline.end_step()
        timeline.step_pending = _rounds.is_open
    if not timeline.explicit_phases:
        timeline.phase(OTHER)
    return None


def _is_skipped(optimizer: Any) -> bool:
    """Return True if a fused optimizer skipped the update because of infinite gradients; known on the CPU only."""
    infinite = getattr(optimizer, "found_inf", None)
    return infinite is not None and infinite.device.type == "cpu" and bool(infinite)
