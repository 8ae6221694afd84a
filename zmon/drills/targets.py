"""How soon does zmon have to know? Pure: from how a fault is proved and how long the job's steps are."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.drills.drill import Proof


@dataclass(frozen=True)
class Targets:
    """Seconds, unless said otherwise."""

    state_seconds: float = 4.0  # a lock, a process state, a carrier: nobody has to wait for a lease
    state_p50_seconds: float = 2.0  # of a session with so many of them or more
    state_drills: int = 3
    silence_floor_seconds: float = 1.5  # the lease of training and its multiple, and a second to find out
    silence_steps: float = 15.0  # × p99
    silence_more_seconds: float = 1.0
    lease_more_seconds: float = 2.0
    slow_steps: int = 20  # of the job from the onset on, or as many of its median ones before
    slow_floor_seconds: float = 5.0
    watcher_seconds: float = 45.0  # 20 s without a pass, 10 s of patience, and the intervals on the way
    page_seconds: float = 5.0
    resolve_seconds: float = 30.0

    def finding_seconds(
        self, proof: Proof, median_seconds: float, p99_seconds: float, lease_seconds: float = 0.0
    ) -> float:
        """From the onset to the finding, at most; median and p99 are of the job's steps before."""
        if proof == "state":
            return self.state_seconds
        if proof == "lease":
            return lease_seconds + self.lease_more_seconds
        if proof == "steps":
            return max(self.slow_floor_seconds, self.slow_steps * median_seconds)
        if proof == "watcher":
            return self.watcher_seconds
        return max(self.silence_floor_seconds, self.silence_steps * p99_seconds) + self.silence_more_seconds


TARGETS = Targets()
