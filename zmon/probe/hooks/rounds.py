"""Decides which optimizer ends a training step if several optimizers step one after the other. Pure.

A round is the sequence of optimizers that step between two steps of the same optimizer. A training step is one round.
A round ends with the optimizer that was last in the previous round; a single optimizer ends it at once. An optimizer
that AMP skips, or that steps only every fifth time, does not delay the end. An optimizer that steps for the first time
belongs to the round that has just ended.
"""

from __future__ import annotations


class Rounds:
    """The order of optimizers. Called before and after each `Optimizer.step`, it tells whether a training step ends."""

    def __init__(self) -> None:
        self._order: list[int] = []  # the optimizers of the last round
        self._current: list[int] = []  # optimizers that have stepped in this round
        self._joined: list[int] = []  # optimizers that first stepped after the last round had ended
        self.single = 0  # the optimizer, if it is the only one and no round is open: its next update ends the step

    @property
    def is_open(self) -> bool:
        """Return True if an optimizer has stepped and the training step has not ended."""
        return bool(self._current)

    def begin_update(self, optimizer: int) -> bool:
        """Note that an optimizer is about to step; return True if the training step ends before that.

        It ends if the same optimizer has already stepped in this round: the others of the round did not step then.
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
        if not self._current and self._order and optimizer not in self._order:
            self._order.append(optimizer)
            self._joined.append(optimizer)
            self.single = 0
            return False
        self._current.append(optimizer)
        self._joined, self.single = [], 0
        if self._order and optimizer != self._order[-1]:
            return False
        if not set(self._current) < set(self._order):
            self._order = self._current
        self._current = []
        self._note_single()
        return True

    def replace(self, optimizer: int, successor: int) -> None:
        """Let another object stand for an optimizer, which will not step any more."""
        for optimizers in (self._order, self._current, self._joined):
            optimizers[:] = [successor if each == optimizer else each for each in optimizers]
        if self.single == optimizer:
            self.single = successor

    def end(self) -> None:
        """End the round, because a change of activity ended the step."""
        self._current, self._joined = [], []
        self._note_single()

    def _note_single(self) -> None:
        self.single = self._order[0] if len(self._order) == 1 else 0
