"""Report a job that is slower than healthy jobs of its name were at the same size.

The efficiency is compared with the one recorded at the same size, never with a figure for all jobs: 50 % is no finding
if 52 % was recorded. The finding has no culprit. If another detector reports what is wrong, this one is suppressed
(zmon/detectors/suppression.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import median
from typing import Annotated

from zmon.detectors.new_finding import new_finding
from zmon.schema.curve import EfficiencySample
from zmon.schema.evidence import EfficiencyEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.thresholds import Range, Share, Thresholds

UpToAnHour = Annotated[float, Range(0.0, 3600.0)]  # seconds; the hub holds two hours of samples


@dataclass(frozen=True)
class EfficiencyLow(Thresholds):
    """The detector `efficiency`."""

    # The job is too slow if its efficiency is below this share of the recorded one. The missing tenth is lost on all
    # GPUs while that lasts.
    below_ratio: Share = 0.9
    # The efficiency is the median over this time. A cold start or another job's checkpoint does not change it.
    window_seconds: UpToAnHour = 600.0
    # The median must be low for this long before a finding opens, and high enough for as long before it resolves.
    lasting_seconds: UpToAnHour = 600.0
    name = "efficiency"
    separate = False
    causes = ("below_baseline",)

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once the job has been fast enough for `lasting_seconds`, or has ended."""
        if not any(r.alive for r in snapshot.reported_ranks):
            return True
        samples = snapshot.efficiency
        begin = snapshot.time - self.lasting_seconds
        if not samples or samples[0].time > begin:
            return False
        return not any(self._is_low(samples, index) for index, sample in enumerate(samples) if sample.time >= begin)

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if there is no record of the job's size, or the job has taken too few steps."""
        reason = "nothing was recorded for its name at its size, or it has taken too few steps"
        return None if snapshot.efficiency else reason

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return at most one finding, about the job."""
        low_seconds = self._low_seconds(snapshot)
        if low_seconds < self.lasting_seconds or not any(r.alive for r in snapshot.ranks):
            return ()
        newest = snapshot.efficiency[-1]
        ratio = self._median_ratio(snapshot.efficiency, len(snapshot.efficiency) - 1)
        finding = new_finding(
            snapshot,
            detector=self.name,
            cause="below_baseline",
            severity="warning",
            proof=STEPS,
            seconds_ago=low_seconds,
            confidence=0.8,
            lost_ratio=1 - ratio,
            summary=f"the job has reached {ratio:.0%} of the efficiency recorded for {newest.name} at this size "
            f"(threshold {self.below_ratio:.0%}) for {low_seconds / 60:.0f} min: efficiency is "
            f"{ratio * newest.recorded:.1%}, and {newest.recorded:.1%} was recorded ({newest.scaling} scaling)",
            detail=f"`zmon status --job {snapshot.job_id}` shows which part of a step grew, `zmon compare GOOD_JOB "
            f"{snapshot.job_id}` by how much beyond chance. Did it begin when the job was started? Compare what was "
            "deployed then.",
            evidence=EfficiencyEvidence(
                reached_ratio=round(ratio, 4),
                recorded_efficiency_ratio=newest.recorded,
                scaling=newest.scaling,
                baseline=newest.name,
            ),
        )
        return (finding,)

    def _low_seconds(self, snapshot: Snapshot) -> float:
        """Return the seconds for which the median has been low without a gap; it stops at `lasting_seconds`."""
        since = newer_time = snapshot.time
        for index in range(len(snapshot.efficiency) - 1, -1, -1):
            sample = snapshot.efficiency[index]
            if newer_time - sample.time >= self.window_seconds or not self._is_low(snapshot.efficiency, index):
                break
            since = newer_time = sample.time
            if snapshot.time - since >= self.lasting_seconds:
                break
        return snapshot.time - since

    def _is_low(self, samples: Sequence[EfficiencySample], index: int) -> bool:
        return self._median_ratio(samples, index) < self.below_ratio

    def _median_ratio(self, samples: Sequence[EfficiencySample], index: int) -> float:
        """Return the median of measured to recorded efficiency over the window that ends with that sample."""
        end = samples[index].time
        window = takewhile(lambda sample: end - sample.time < self.window_seconds, reversed(samples[: index + 1]))
        return median(sample.ratio / sample.recorded for sample in window)
