"""Infers the end of a training step: after the update by the last optimizer that takes part in it.

The hooks are torch's global optimizer hooks. Gradient accumulation has one update for many batches, which is one step.
An update that AMP skips is not a step, because it does not call the hooks. The exception is a fused optimizer on a GPU,
which is called in any case. Only the device knows that it did nothing, so this counts as a step.

Nor is an update a step that torch's distributed checkpoint makes to create the state of an optimizer.

An update may be made in another thread than the last one: a job may run each step or each epoch in a thread of a pool.
The thread that steps the rank's optimizer is then the rank's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from threading import local
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from zmon import probe
from zmon.probe.edge import fronts
from zmon.probe.hooks.compiled_updates import hook_after, hook_before
from zmon.probe.hooks.fresh_optimizers import FreshOptimizers
from zmon.probe.hooks.later import when_imported
from zmon.probe.hooks.replacing import replace, wrapper_of
from zmon.probe.rank import OTHER, PHASE_NUMBER, TRAIN, RankTimeline

_OPTIMIZER = PHASE_NUMBER["optimizer"]
_MIN_LIMIT = 256  # optimizers that are remembered in any case; a job may have one for each parameter, or more


class Rounds:
    """The order of optimizers. Called before and after each `Optimizer.step`, it tells whether a training step ends.

    A round is the sequence of optimizers that step between two steps of the same optimizer. A training step is one
    round. A round ends with the optimizer that was last in the previous round; a single optimizer ends it at once. An
    optimizer that AMP skips, or that steps only every fifth time, does not delay the end. An optimizer that steps for
    the first time belongs to the round that has just ended.
    """

    def __init__(self) -> None:
        self._order: list[int] = []  # the optimizers of the last round
        self._current: list[int] = []  # optimizers that have stepped in this round
        self._joined: list[int] = []  # optimizers that first stepped after the last round had ended
        self._limit = _MIN_LIMIT
        self.single = 0  # the optimizer, if it is the only one and no round is open: its next update ends the step

    @property
    def is_open(self) -> bool:
        """Return True if an optimizer has stepped and the training step has not ended."""
        return bool(self._current)

    def begin_update(self, optimizer: int) -> bool:
        """Note that an optimizer is about to step; return True if the training step ends before that.

        The step ends if the same optimizer has already stepped in this round: the round's others did not step then.
        """
        stepped = self._current or self._joined
        if optimizer not in stepped:
            return False
        self._order, self._current, self._joined = stepped, [], []
        self._note_single()
        return True

    def end_update(self, optimizer: int) -> bool:
        """Note that an optimizer has stepped; return True if that ends the training step."""
        if not self._current and not self._joined and self._order == [optimizer]:
            return True  # a single optimizer, as in most jobs
        if not self._current and self._order and optimizer not in self._order:  # it belongs to the round that has ended
            self._order.append(optimizer)
            self._joined.append(optimizer)
            self.single = 0
            return False
        self._current.append(optimizer)
        self._joined, self.single = [], 0
        if self._order and optimizer != self._order[-1]:
            return False
        if not set(self._current) < set(self._order):  # else it lacked some that step rarely
            self._order = self._current
        self._current = []
        self._note_single()
        return True

    def replace(self, optimizer: int, successor: int) -> None:
        """Let another object stand for an optimizer, which will not step any more."""
        for optimizers in (self._order, self._current, self._joined):
            optimizers[:] = [successor if member == optimizer else member for member in optimizers]
        if self.single == optimizer:
            self.single = successor

    def forget_others(self, remembered: Callable[[], Collection[int]]) -> None:
        """Forget the optimizers that are not remembered, each time that the number of optimizers has doubled."""
        if len(self._order) > self._limit:
            retained = remembered()
            for optimizers in (self._order, self._current, self._joined):
                optimizers[:] = [member for member in optimizers if member in retained]
            self._limit = max(_MIN_LIMIT, 2 * len(self._order))

    def end(self) -> None:
        """End the round, because a change of activity ended the step."""
        self._current, self._joined = [], []
        self._note_single()

    def _note_single(self) -> None:
        self.single = self._order[0] if len(self._order) == 1 else 0


class _OtherThread(local):
    """The optimizers that are in `step` in this thread, which is not the rank's own."""

    def __init__(self) -> None:
        self.running: list[int] = []


_rounds, _fresh = Rounds(), FreshOptimizers()
_running: list[int] = []  # optimizers that are in `step`, innermost last; only the outermost one counts
_other_thread = _OtherThread()
_NO_OPTIMIZER = 0  # in `_running` while no update counts
_installed = False


def install() -> None:
    """Register the hooks for all optimizers, once."""
    global _installed
    if not _installed:
        _installed = True
        fronts.connect(running_optimizers=_running, rounds=_rounds)
        before, after = hook_before(_on_update_begin), hook_after(_on_update_begin, _on_update_end)
        register_optimizer_step_pre_hook(fronts.front("update_begin", before))
        register_optimizer_step_post_hook(fronts.front("update_end", after))
        when_imported("torch.distributed.checkpoint.state_dict", _ignore_creation_of_state)


def _ignore_creation_of_state(module: Any) -> None:
    """Count no update while torch creates the state of an optimizer: it steps with zero gradients and learning rate."""
    original = getattr(module, "_init_optim_state", None)  # another torch may lack it
    if original is None:
        return

    @wrapper_of(original)
    def create_state(*args: Any, **kwargs: Any) -> Any:
        _running.insert(0, _NO_OPTIMIZER)
        try:
            return original(*args, **kwargs)
        finally:
            _running.remove(_NO_OPTIMIZER)

    replace({original: create_state})


@probe.guarded
def _on_update_begin(optimizer: Any, *_: Any) -> None:
    """Begin the phase of the optimizer, and end the previous step if this update shows that it is over."""
    if _NO_OPTIMIZER in _running:
        return
    timeline = probe.current
    if timeline is None or timeline.activity != TRAIN:
        timeline = probe.start_training()
    if timeline is None:
        return
    if not timeline.acts_for_rank():
        _enter(_other_thread.running, optimizer)
        return
    if timeline.explicit_activity and timeline.activity != TRAIN:
        return  # the job has marked another activity; it may be creating an optimizer's state, for example
    if not _enter(_running, optimizer):
        return
    if not timeline.explicit_steps:
        _begin_round(timeline, optimizer)
    if not timeline.explicit_phases:
        timeline.phase(_OPTIMIZER)


@probe.guarded
def _on_update_end(optimizer: Any, *_: Any) -> None:
    """End the step, or the phase of the optimizer if another optimizer follows or the job marks its steps."""
    timeline = probe.current
    if timeline is None or _NO_OPTIMIZER in _running:
        return
    if timeline.acts_for_rank():
        if not _leave(_running, optimizer):
            return
    elif _leave(_other_thread.running, optimizer) and _take_over(timeline, optimizer):
        _begin_round(timeline, optimizer)
    else:
        return
    if not timeline.explicit_steps and not _is_skipped(optimizer):
        if _rounds.end_update(id(optimizer)):
            timeline.end_step()
            return
        timeline.step_pending = _rounds.is_open
    if not timeline.explicit_phases:
        timeline.phase(OTHER)


def _enter(running: list[int], optimizer: Any) -> bool:
    """Note that an optimizer is in `step`; return True if it is the outermost one."""
    if id(optimizer) in running:  # it raised in its last step, or calls the step of its base class
        del running[running.index(id(optimizer)) :]
    running.append(id(optimizer))
    return len(running) == 1


def _leave(running: list[int], optimizer: Any) -> bool:
    """Note that an optimizer has left `step`; return True if it was the outermost one."""
    if id(optimizer) not in running:
        return False
    del running[running.index(id(optimizer)) :]
    return not running


def _take_over(timeline: RankTimeline, optimizer: Any) -> bool:
    """Make this thread the rank's own if it has updated the rank's model; return True if that is done.

    An optimizer that the rank's own thread never stepped may belong to a helper, which fits another model beside the
    training. Its thread becomes the rank's own only once the rank's own thread has ended.
    """
    if timeline.explicit_steps or timeline.explicit_activity:
        return False  # the job marks which thread does what
    if _fresh.is_new(optimizer) and not timeline.own_thread_has_ended():
        return False
    if not timeline.adopt_thread():
        return False
    _running.clear()
    return probe.start_training() is not None


def _begin_round(timeline: RankTimeline, optimizer: Any) -> None:
    """Note that an optimizer is about to step, which ends the last step if its round already has this optimizer."""
    if _fresh.is_new(optimizer):
        if (predecessor := _fresh.add(optimizer)) is not None:
            _rounds.replace(predecessor, id(optimizer))
        _rounds.forget_others(_fresh.remembered_ids)
    if _rounds.is_open and not timeline.step_pending:
        _rounds.end()
    if _rounds.begin_update(id(optimizer)):
        timeline.end_step()


def _is_skipped(optimizer: Any) -> bool:
    """Return True if a fused optimizer skipped the update because of infinite gradients; known on the CPU only."""
    infinite = getattr(optimizer, "found_inf", None)
    return infinite is not None and infinite.device.type == "cpu" and bool(infinite)
