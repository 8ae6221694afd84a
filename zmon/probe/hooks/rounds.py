"""Which optimizer ends the step, where several step in turn. Pure.

A round is what steps between two steps of the same optimizer; a training step is one round. It ends with the optimizer
that was the last one of the round before, so with a single optimizer at once; one that AMP skipped or that steps every
fifth time only does not hold a round up, and one that shows up for the first time belongs to the round just ended.
"""

from __future__ import annotations


class Rounds:
    """Told before and after each `Optimizer.step`; answers whether a training step ends there."""

    def __init__(self) -> None:
        self._order: list[int] = []  # of the last round
        self._current: list[int] = []  # what has stepped in this one
        self._joined: list[int] = []  # what showed up after the last one had ended

    @property
    def open(self) -> bool:
        """Whether an optimizer has stepped and the step has not ended."""
        return bool(self._current)

    def before(self, optimizer: int) -> bool:
        """It is about to step. True: it has in this round already, so that one ended without the rest."""
        again = self._current or self._joined
        if optimizer not in again:
            return False
        self._order, self._current, self._joined = again, [], []
        return True

    def after(self, optimizer: int) -> bool:
        """It has stepped. True: that ends the training step."""
        if not self._current and not self._joined and self._order == [optimizer]:
            return True  # alone, as most are
        if not self._current and self._order and optimizer not in self._order:
            self._order.append(optimizer)
            self._joined.append(optimizer)
            return False
        self._current.append(optimizer)
        self._joined = []
        if self._order and optimizer != self._order[-1]:
            return False
        if not set(self._current) < set(self._order):
            self._order = self._current
        self._current = []
        return True

    def end(self) -> None:
        """The rank turned to something else, which ended the step."""
        self._current, self._joined = [], []
