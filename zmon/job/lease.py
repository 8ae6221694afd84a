"""The lease of a rank: how long it may go without a sign of progress before it is a suspect.

Each activity has a lease. Training renews its lease at every step boundary, the others when they begin. The lease of
training follows the job's recent steps: a job with steps of 20 ms is suspected after 1.5 s, one with steps of 2 s after
half a minute. In training, the stall detector also applies the median of all ranks' leases to every rank
(zmon/detectors/stall.py). The lease of an evaluation or a checkpoint follows the earlier ones, once there were three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.schema.thresholds import Multiple, Thresholds
from zmon.stats import quantile


@dataclass(frozen=True)
class Leases(Thresholds):
    """The leases by activity, and the rules by which a lease is learned from the job."""

    # The lease of initialization. A large job loads data, compiles, and waits for all ranks.
    init_seconds: float = 1800.0
    # The longest lease of an evaluation. It must suffice for a whole validation set.
    eval_seconds: float = 1800.0
    # The longest lease of a checkpoint. It must suffice for a large model on slow storage.
    checkpoint_seconds: float = 900.0
    # The shortest lease of training. With a shorter one, a garbage collection or a page fault would exceed it.
    train_floor_seconds: float = 1.5
    # The lease of training is this value × the p99 of the step time. A pause of 10 steps is ordinary.
    train_multiple: Multiple = 15.0
    # The number of steps after which training has a lease of its own. Until then it has the lease of initialization.
    learned_after_steps: int = 5
    # The shortest learned lease of an evaluation or a checkpoint. A job with many short evaluations may run a long one
    # at the end.
    stay_floor_seconds: float = 60.0
    # The learned lease of an evaluation or a checkpoint is this value × the longest one so far, but never more than the
    # configured lease.
    stay_multiple: Multiple = 5.0
    # The number of evaluations, or of checkpoints, after which their lease is learned. Until then it is the configured
    # one.
    learned_after_stays: int = 3

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
