"""How long may a rank go without a sign of progress before that is a stall?

An activity is a lease. Training renews it at every step boundary, the others when they begin. In training the
lease follows the job's own recent steps, so a 20 ms job is suspected after 1.5 s and a 2 s job after half a minute; an
evaluation or a checkpoint follows those before it, once there were three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.schema.thresholds import Thresholds, Times
from zmon.stats import quantile


@dataclass(frozen=True)
class Leases(Thresholds):
    """Seconds by activity, and how a lease is learned from the job."""

    init_seconds: float = 1800.0  # loading data, compiling, rendezvous of a large job
    eval_seconds: float = 1800.0  # over a whole validation set
    checkpoint_seconds: float = 900.0  # of a large model to a slow store
    train_floor_seconds: float = 1.5  # below it a garbage collection or a page fault would count
    train_multiple: Times = 15.0  # × p99 step: a pause of 10 steps is ordinary
    learned_after_steps: int = 5  # before that a training step is judged like initialization
    stay_floor_seconds: float = 60.0  # a job with many short evaluations may do a long one at the end
    stay_multiple: Times = 5.0  # × the longest evaluation, or checkpoint, so far
    learned_after_stays: int = 3  # before that evaluations and checkpoints have their whole lease

    def seconds(self, activity: str, recent_steps: Sequence[float], stays: Sequence[float] = ()) -> float | None:
        """The lease of an activity; None: it has all time. Given in seconds what the rank's recent steps took, and its
        earlier stays in that activity."""
        if activity == "done":
            return None
        if activity not in ("init", "train"):  # one without a lease of its own may take as long as the start
            longest = {"eval": self.eval_seconds, "checkpoint": self.checkpoint_seconds}.get(
                activity, self.init_seconds
            )
            if len(stays) < self.learned_after_stays:
                return longest
            return min(longest, max(self.stay_floor_seconds, self.stay_multiple * max(stays)))
        p99 = quantile(recent_steps, 0.99)
        if activity == "init" or p99 is None or len(recent_steps) < self.learned_after_steps:
            return self.init_seconds
        return max(self.train_floor_seconds, self.train_multiple * p99)
