"""Compute the time within which zmon must report a fault. Pure.

The time depends on the proof, and for some proofs on the step times of the job or on a lease.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.drills.drill import Proof


@dataclass(frozen=True)
class Targets:
    """The longest times, from the onset of the fault unless noted, in which a report is not late."""

    state_seconds: float = 4.0  # a lock, a process state, a carrier: no lease has to run out
    state_p50_seconds: float = 2.0  # median over a session with at least `state_drills` such drills
    state_drills: int = 3
    silence_floor_seconds: float = 1.5  # the shortest lease of training
    silence_steps: float = 15.0  # the lease of training is this many p99 step times
    silence_more_seconds: float = 1.0  # time to report after the lease
    lease_more_seconds: float = 2.0  # time to report after the lease of another activity
    critical_floor_seconds: float = 20.0  # what only silence proves is critical after this time without progress
    slow_steps: int = 20  # steps since the onset, or as many median step times from before the onset
    slow_floor_seconds: float = 5.0  # the shortest target for a slow rank, even if its steps are shorter
    watcher_seconds: float = 45.0  # ZmonLeaseOverdue needs 10 s without a pass, 24 s (`for`), and some intervals
    page_seconds: float = 5.0  # from the finding, or from its becoming critical, to the page
    resolve_seconds: float = 30.0  # from the end of the fault to the end of the finding

    def finding_seconds(
        self, proof: Proof, median_seconds: float, p99_seconds: float, lease_seconds: float = 0.0
    ) -> float:
        """Return the longest time from onset to finding; median and p99 are of the job's steps before the fault."""
        if proof == "state":
            return self.state_seconds
        if proof == "lease":
            return lease_seconds + self.lease_more_seconds
        if proof == "steps":
            return max(self.slow_floor_seconds, self.slow_steps * median_seconds)
        if proof == "watcher":
            return self.watcher_seconds
        return max(self.silence_floor_seconds, self.silence_steps * p99_seconds) + self.silence_more_seconds

    def critical_seconds(self, finding_seconds: float, p99_seconds: float) -> float:
        """Return the longest time from onset to a critical finding about a stall that only silence proves.

        `finding_seconds` is the target for the finding itself. A fault may come at the end of a step; then the other
        ranks begin to wait a step later.
        """
        return max(finding_seconds, self.critical_floor_seconds + p99_seconds + self.silence_more_seconds)


TARGETS = Targets()
