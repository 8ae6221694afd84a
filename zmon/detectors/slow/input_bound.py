"""Report a job in which every rank waits for its data in every step, so that faster GPUs or networks gain nothing.

The median rank decides; one rank with a slow loader is a straggler. This is no fault, but the cheapest time to gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.detectors.new_finding import new_finding
from zmon.schema.aligned_step import StepWindow
from zmon.schema.evidence import InputBoundEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.thresholds import Share, Thresholds


@dataclass(frozen=True)
class InputBound(Thresholds):
    """The detector `input_bound`."""

    # The job is input-bound if the wait for data is at least this share of the step time. With loaders that keep up, it
    # is a few percent.
    data_ratio: Share = 0.3
    # The steps must cover this time. Caches and prefetch queues are filled sooner.
    lasting_seconds: float = 60.0
    # There must be at least this many steps. Fewer give no useful mean, however long they take.
    num_steps: int = 20
    name = "input_bound"
    separate = False
    causes = ("input_bound",)

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once there are enough steps."""
        return bool(self._recent_windows(snapshot))

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the ranks mark no data phase."""
        has_data_phase = any("data" in step.phases for step in snapshot.steps)
        reason = "its ranks mark no data phase: they use no DataLoader and no zmon.phase"
        return None if has_data_phase or not snapshot.steps else reason

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return at most one finding, about the job."""
        windows = self._recent_windows(snapshot)
        if not windows or not any(r.alive for r in snapshot.ranks):
            return ()
        num_steps = sum(window.num_steps for window in windows)
        seconds = sum(window.seconds * window.num_steps for window in windows)
        data = sum(window.data_seconds * window.num_steps for window in windows)
        if data < self.data_ratio * seconds:
            return ()
        finding = new_finding(
            snapshot,
            detector=self.name,
            cause="input_bound",
            severity="info",
            proof=STEPS,
            seconds_ago=seconds,
            confidence=0.9,
            summary=f"the ranks wait for data for {data / seconds:.0%} of their time (threshold "
            f"{self.data_ratio:.0%}): {data / num_steps * 1000:.1f} ms of a step of {seconds / num_steps * 1000:.1f} "
            f"ms, over {num_steps} steps",
            detail="Use more loader workers (`num_workers`, as many as there are free cores), `prefetch_factor`, "
            "`persistent_workers`, `pin_memory`. Do less work per sample (decode and tokenize beforehand). Move the "
            "data nearer, or cache it on the host's disk. `zmon_phase_seconds_total` shows each rank.",
            evidence=InputBoundEvidence(data_ratio=round(data / seconds, 3), num_steps=num_steps),
        )
        return (finding,)

    def _recent_windows(self, snapshot: Snapshot) -> Sequence[StepWindow]:
        """Return the newest step windows that are long enough together; none if too few are known."""
        for first in range(len(snapshot.step_windows) - 1, -1, -1):
            windows = snapshot.step_windows[first:]
            seconds = sum(window.seconds * window.num_steps for window in windows)
            if seconds >= self.lasting_seconds and sum(w.num_steps for w in windows) >= self.num_steps:
                return windows
        return ()
