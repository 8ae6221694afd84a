"""The lease of a rank: how long it may go without a sign of progress before it is a suspect.

Each activity has a lease. Training renews its lease at every step boundary, the others when they begin. The lease of
training follows the job's recent steps: a job with steps of 20 ms is suspected after 1.5 s, one with steps of 2 s after
half a minute. The lease of an evaluation or a checkpoint follows the earlier ones, once there were three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.schema.thresholds import Thresholds, Times
from zmon.stats import quantile


@dataclass(frozen=True)
class Leases(Thresholds):
    """The leases by activity, and the rules by which a lease is learned from the job."""

    init_seconds: float = 1800.0  # loading data, compiling, rendezvous of a large job
    eval_seconds: float = 1800.0  # over a whole validation set
    checkpoint_seconds: float = 900.0  # of a large model to a slow store
    train_floor_seconds: float = 1.5  # with less, a garbage collection or a page fault would count
    train_multiple: Times = 15.0  # × p99 step; a pause of 10 steps is ordinary
    learned_after_steps: int = 5  # before that, training has the lease of initialization
    stay_floor_seconds: float = 60.0  # a job with many short evaluations may do a long one at the end
    stay_multiple: Times = 5.0  # × the longest evaluation, or checkpoint, so far
    learned_after_stays: int = 3  # before that, evaluations and checkpoints have their full lease

    def seconds(self, activity: str, recent_steps: Sequence[float], stays: Sequence[float] = ()) -> float | None:
        """Return the lease of an activity; None if it has no limit.

        `recent_steps` has the durations of the rank's recent steps, `stays` those of its earlier times in that
        activity, both in seconds.
        """
        if activity == "done":
            return None
        if activity not in ("init", "train"):  # an unknown activity has the lease of init
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
