"""When a training step ends: after the optimizer's update, whichever optimizers take part in it.

From torch's global optimizer hooks. Gradient accumulation has one update in many batches and so one step; an update
that AMP skips never comes here (a fused optimizer is called all the same, and on a GPU only the device knows
that it did nothing: that counts as a step).
"""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from zmon import probe
from zmon.probe.hooks.rounds import Rounds
from zmon.probe.rank import OTHER, PHASE_NUMBER, TRAIN

_OPTIMIZER = PHASE_NUMBER["optimizer"]
_rounds = Rounds()
_running: list[int] = []  # optimizers in their step: what one calls of others, or of its base class, is part of it
_installed = False


def install() -> None:
    """Listen to all optimizers, once."""
    global _installed
    if not _installed:
        _installed = True
        register_optimizer_step_pre_hook(_before)
        register_optimizer_step_post_hook(_after)


@probe.guarded
def _before(optimizer: Any, *_: Any) -> None:
    timeline = probe.current
    if timeline is None or timeline.activity != TRAIN:
        timeline = probe.training()
    if timeline is None or not timeline.mine():
        return
    if timeline.told_activity and timeline.activity != TRAIN:
        return  # the job says that it does something else: making an optimizer's state, for example
    if id(optimizer) in _running:  # it raised the last time, or calls the step of its base class
        del _running[_running.index(id(optimizer)) :]
    _running.append(id(optimizer))
    if len(_running) > 1:
        return
    if not timeline.told_steps:
        if _rounds.open and not timeline.step_pending:
            _rounds.end()
        if _rounds.before(id(optimizer)):
            timeline.end_step()
    if not timeline.told_phases:
        timeline.phase(_OPTIMIZER)


@probe.guarded
def _after(optimizer: Any, *_: Any) -> None:
    timeline = probe.current
    if timeline is None or id(optimizer) not in _running or not timeline.mine():
        return None
    del _running[_running.index(id(optimizer)) :]
    if _running:
        return None
    if not timeline.told_steps and not _skipped(optimizer):
        if _rounds.after(id(optimizer)):
            return timeline.end_step()
        timeline.step_pending = _rounds.open
    if not timeline.told_phases:
        timeline.phase(OTHER)
    return None


def _skipped(optimizer: Any) -> bool:
    """Whether a fused optimizer found infinite gradients and left the weights alone; known on the CPU only."""
    found_inf = getattr(optimizer, "found_inf", None)
    return found_inf is not None and found_inf.device.type == "cpu" and bool(found_inf)
