"""Is the job slower than jobs of its name were at this size while they were well?

Held against what was recorded at just its size, never against a figure for all jobs: 50 % where 52 % was recorded is
quiet. Nobody is named here: where another detector says what is wrong, that is said instead
(zmon/detectors/suppression.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from zmon.detectors.parts.verdict import verdict
from zmon.schema.curve import EfficiencySample
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Part, Range, Thresholds

UpToAnHour = Annotated[float, Range(0.0, 3600.0)]  # the hub keeps two


@dataclass(frozen=True)
class EfficiencyLow(Thresholds):
    """Thresholds."""

    below_ratio: Part = 0.9  # of what was recorded: the tenth is lost on all GPUs for as long as it goes on
    window_seconds: UpToAnHour = 600.0  # whose median counts: neither a cold start nor a neighbour's checkpoint does
    lasting_seconds: UpToAnHour = 600.0  # that the median stays below, and above once it is over
    name = "efficiency"
    separate = False
    causes = ("below_baseline",)

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Once it has been as fast as it should be for as long as it had to be slow, or is over."""
        if not any(r.alive for r in snapshot.reported_ranks):
            return True
        samples, begin = snapshot.efficiency, snapshot.time - self.lasting_seconds
        if not samples or samples[0].time > begin:
            return False
        return not any(self._low(samples, at) for at, sample in enumerate(samples) if sample.time >= begin)

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where nothing was recorded at the job's size, or too little is known of it."""
        known = "nothing was recorded of its name at its size, or it has not taken steps enough"
        return None if snapshot.efficiency else known

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """At most one, about the job."""
        lasted = self._lasted(snapshot)
        if lasted < self.lasting_seconds or not any(r.alive for r in snapshot.ranks):
            return ()
        newest = snapshot.efficiency[-1]
        reached = self._reached(snapshot.efficiency, len(snapshot.efficiency) - 1)
        found = verdict(
            snapshot,
            detector=self.name,
            cause="below_baseline",
            severity="warning",
            culprits=(),
            seconds_ago=lasted,
            confidence=0.8,
            stalled=False,
            lost_ratio=1 - reached,
            summary=f"the job reaches {reached:.0%} of what was recorded at this size of {newest.name} (threshold "
            f"{self.below_ratio:.0%}), for {lasted / 60:.0f} min: efficiency is {reached * newest.recorded:.1%}, and "
            f"{newest.recorded:.1%} was recorded ({newest.scaling} scaling)",
            detail=f"`zmon status --job {snapshot.job_id}` shows which part of a step grew, `zmon compare GOOD_JOB "
            f"{snapshot.job_id}` by how much beyond chance. Did it begin at a start of the job? Compare what was "
            "deployed then.",
            evidence=Evidence(
                reached_ratio=round(reached, 4),
                recorded_efficiency_ratio=newest.recorded,
                scaling=newest.scaling,
                baseline=newest.name,
            ),
        )
        return (found,)

    def _lasted(self, snapshot: Snapshot) -> float:
        """For how long the median has been low without a gap; no longer than it must."""
        since = later = snapshot.time
        for at in range(len(snapshot.efficiency) - 1, -1, -1):
            sample = snapshot.efficiency[at]
            if later - sample.time >= self.window_seconds or not self._low(snapshot.efficiency, at):
                break
            since = later = sample.time
            if snapshot.time - since >= self.lasting_seconds:
                break
        return snapshot.time - since

    def _low(self, samples: Sequence[EfficiencySample], at: int) -> bool:
        return self._reached(samples, at) < self.below_ratio

    def _reached(self, samples: Sequence[EfficiencySample], at: int) -> float:
        """The median, over the window that ended with that sample, of what was reached of what was recorded."""
        end, ratios = samples[at].time, []
        for sample in reversed(samples[: at + 1]):
            if end - sample.time >= self.window_seconds:
                break
            ratios.append(sample.ratio / sample.recorded)
        return median(ratios)
