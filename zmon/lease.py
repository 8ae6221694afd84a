"""How long may a rank go without a sign of progress before that is a stall?

An activity is a lease. Training renews it at every step boundary, the others when they begin. In training the
lease follows the job's own recent steps, so a 20 ms job is suspected after 1.5 s and a 2 s job after half a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.stats import quantile


@dataclass(frozen=True)
class Leases:
    """Seconds by activity, and how the training lease is learned."""

    init_seconds: float = 1800.0  # loading data, compiling, rendezvous of a large job
    eval_seconds: float = 1800.0
    checkpoint_seconds: float = 900.0
    train_floor_seconds: float = 1.5  # below it a garbage collection or a page fault would count
    train_multiple: float = 15.0  # × p99 step: a pause of 10 steps is ordinary
    learned_after_steps: int = 5  # before that a training step is judged like initialization

    def seconds(self, activity: str, recent_steps: Sequence[float]) -> float | None:
        """The lease of an activity, given durations of the rank's recent steps in seconds; None: it has all time."""
        if activity == "done":
            return None
        if activity == "eval":
            return self.eval_seconds
        if activity == "checkpoint":
            return self.checkpoint_seconds
        p99 = quantile(recent_steps, 0.99)
        if activity == "init" or p99 is None or len(recent_steps) < self.learned_after_steps:
            return self.init_seconds
        return max(self.train_floor_seconds, self.train_multiple * p99)
