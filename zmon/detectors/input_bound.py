"""Does every rank wait for its data, step after step? Then faster accelerators or networks would gain nothing.

The median rank tells: one slow loader is a straggler's. No fault, but the cheapest time to win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.detectors.parts.verdict import verdict
from zmon.schema.aligned_step import StepWindow
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Part, Thresholds


@dataclass(frozen=True)
class InputBound(Thresholds):
    """Thresholds."""

    data_ratio: Part = 0.3  # of the step: loaders that keep up leave the wait for a batch below some percent
    lasting_seconds: float = 60.0  # longer than caches and prefetch queues need to fill
    num_steps: int = 20  # fewer have no mean to speak of, however long they are
    name = "input_bound"
    separate = False
    causes = ("input_bound",)

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Once it has seen steps for long enough."""
        return bool(self._lately(snapshot))

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where the ranks mark no data phase."""
        told = any("data" in step.phases for step in snapshot.steps)
        return None if told or not snapshot.steps else "its ranks mark no data phase: no DataLoader, no zmon.phase"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """At most one, about the job."""
        lately = self._lately(snapshot)
        if not lately or not any(r.alive for r in snapshot.ranks):
            return ()
        num_steps = sum(s.num_steps for s in lately)
        seconds = sum(s.seconds * s.num_steps for s in lately)
        data = sum(s.data_seconds * s.num_steps for s in lately)
        if data < self.data_ratio * seconds:
            return ()
        found = verdict(
            snapshot,
            detector=self.name,
            cause="input_bound",
            severity="info",
            culprits=(),
            seconds_ago=seconds,
            confidence=0.9,
            stalled=False,
            summary=f"the ranks wait for data for {data / seconds:.0%} of their time (threshold "
            f"{self.data_ratio:.0%}): {data / num_steps * 1000:.1f} ms of a step of {seconds / num_steps * 1000:.1f} "
            f"ms, over {num_steps} steps",
            detail="More loader workers (`num_workers`, as many as there are cores left), `prefetch_factor`, "
            "`persistent_workers`, `pin_memory`; less work per sample (decode and tokenize beforehand); storage nearer "
            "or a cache on the host's disk. `zmon_phase_seconds_total` shows each rank.",
            evidence=Evidence(data_ratio=round(data / seconds, 3), num_steps=num_steps),
        )
        return (found,)

    def _lately(self, snapshot: Snapshot) -> Sequence[StepWindow]:
        """The newest step_windows that are long enough together; none: not known for so long."""
        for first in range(len(snapshot.step_windows) - 1, -1, -1):
            taken = snapshot.step_windows[first:]
            lasted = sum(s.seconds * s.num_steps for s in taken)
            if lasted >= self.lasting_seconds and sum(s.num_steps for s in taken) >= self.num_steps:
                return taken
        return ()
