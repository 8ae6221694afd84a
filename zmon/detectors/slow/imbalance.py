"""Report work that is split unevenly: one rank always has more, or in each step a different rank is slow.

Work is compared over the recent steps, because random batches burden a different rank in each step. Uneven work that
costs nothing is not reported. The cost is the rank's self time beyond the median, and the part of the exposed
all-to-all that an even split would save.

If no rank is always slow, the steps may still lose time to waiting for the slowest rank, a different one in each step.
That loss is taken from step windows, and its cause from the recent steps. It has no culprit. Stages of a pipeline that
are longer than the others are reported as stages, not as ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.detectors.slow.jitter import measure_jitter
from zmon.detectors.slow.skew import Skew, costly_skew, skew_finding
from zmon.detectors.slow.stages import LongStage, long_stage, stage_finding
from zmon.detectors.slow.uneven_steps import JITTER_CAUSES, UnevenSteps, uneven_finding, uneven_steps
from zmon.job.efficiency import lasting_loss
from zmon.job.roles import roles
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.thresholds import Multiple, Share, Thresholds


@dataclass(frozen=True)
class Imbalance(Thresholds):
    """The detector `imbalance`."""

    # A step is uneven if one rank has at least this many times the mean work of the other ranks. Tables do not divide
    # evenly: 1.5 is usual.
    uneven_ratio: Multiple = 2.0
    # An even split must be able to save at least this share of the step time. Less is not worth a new plan.
    cost_ratio: Share = 0.1
    # At least this many steps are judged. With two ranks, chance makes at most one step in four this uneven.
    num_steps: int = 16
    # This share of the judged steps may be even. A few even steps are odd batches, not another plan.
    odd_ratio: Share = 0.125
    # The judged steps must cover this time, unless the hub keeps fewer steps. Heavy data of one rank passes sooner.
    lasting_seconds: float = 5.0
    # In some jobs, a different rank is slow in each step. The loss to it must last over this many step windows of at
    # least 5 s; the worst is left out. A pause of one rank, or contention for two seconds, is in one window.
    num_windows: int = 3
    # The loss is reported, as `info`, once it sums to this time. A job that loses most of its steps then shows it after
    # a quarter of a minute.
    noted_seconds: float = 8.0
    # The loss is a warning once it sums to this time. A job that loses a tenth of its time is warned about after 200 s.
    # What a job loses while its caches and queues fill, or while another program starts, is less.
    lost_seconds: float = 20.0
    # A step must lose at least this time to its slow rank. The operating system alone delays a process by a millisecond
    # now and then.
    least_seconds: float = 0.001
    # A reason, such as a wait for data, is the cause of the loss if it explains at least this share of it.
    explained_ratio: Share = 0.5
    # A stage is long if its median rank takes at least this much longer than the median of the other stages. The first
    # and last stage of a pipeline seldom differ by less.
    longer_ratio: float = 0.2
    # A finding about a loss or a stage resolves when the loss is below this share of its threshold.
    over_ratio: Share = 0.5
    name = "imbalance"
    separate = True
    causes = ("all_to_all_skew", "lookup_skew", *JITTER_CAUSES, "stage_imbalance")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once there are enough steps, and once a loss is well below its threshold or has another cause."""
        if len(snapshot.steps) < self.num_steps:
            return False
        if finding.cause == "stage_imbalance":
            stage = self._long_stage(snapshot)
            return stage is None or stage.saved_seconds < self.over_ratio * self.cost_ratio * stage.step_seconds
        if finding.cause not in JITTER_CAUSES:
            return True
        uneven = self._uneven(snapshot, self.over_ratio * self.cost_ratio)
        return uneven is None or uneven.cause != finding.cause or self._skew(snapshot) is not None

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if there is only one rank, or if no rank waits for others in its steps."""
        if snapshot.world_size < 2:
            return "it has one rank"
        if snapshot.uncompared:
            return snapshot.uncompared
        return None if not snapshot.steps or snapshot.steps[-1].exposed else "its steps report no collective"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return a finding about the rank that always has most work, and findings about a stage and uneven steps."""
        if snapshot.uncompared or not any(r.alive for r in snapshot.ranks):
            return ()
        skew = self._skew(snapshot)
        stage = self._stage(snapshot)
        uneven = self._uneven(snapshot, self.cost_ratio) if skew is None else None
        findings = [
            skew_finding(snapshot, skew, self.uneven_ratio, self.cost_ratio) if skew else None,
            stage,
            self._uneven_finding(snapshot, uneven) if uneven else None,
        ]
        return tuple(finding for finding in findings if finding is not None)

    def _skew(self, snapshot: Snapshot) -> Skew | None:
        """Return the rank that always has most work, if that costs enough."""
        steps = self._window(snapshot.steps)
        return costly_skew(steps, self.num_steps, self.uneven_ratio, self.odd_ratio, self.cost_ratio)

    def _stage(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding about a stage that takes longer than the others."""
        stage = self._long_stage(snapshot)
        if stage is None or stage.longest_ratio < 1 - self.odd_ratio:
            return None
        if stage.seconds < (1 + self.longer_ratio) * stage.others_seconds:
            return None
        if stage.saved_seconds < self.cost_ratio * stage.step_seconds:
            return None
        return stage_finding(snapshot, stage, self._window(snapshot.steps), self.longer_ratio, self.cost_ratio)

    def _long_stage(self, snapshot: Snapshot) -> LongStage | None:
        steps = self._window(snapshot.steps)
        stages = roles(snapshot) if len(steps) >= self.num_steps else ()
        return long_stage(steps, stages) if len(stages) > 1 else None

    def _uneven(self, snapshot: Snapshot, least_ratio: float) -> UnevenSteps | None:
        """Return the loss to a slow rank that changes, if it is at least `least_ratio` of the time."""
        loss = lasting_loss(snapshot.step_windows, self.num_windows, least_ratio)
        if loss is None or len(snapshot.steps) < self.num_steps:
            return None
        uneven = uneven_steps(loss, measure_jitter(snapshot.steps), self.explained_ratio)
        return uneven if uneven.ratio >= least_ratio else None

    def _uneven_finding(self, snapshot: Snapshot, uneven: UnevenSteps) -> Finding | None:
        if uneven.ratio * uneven.jitter.step_seconds < self.least_seconds or uneven.lost_seconds < self.noted_seconds:
            return None
        severity: Severity = "warning" if uneven.lost_seconds >= self.lost_seconds else "info"
        return uneven_finding(snapshot, uneven, severity, self.cost_ratio)

    def _window(self, steps: Sequence[AlignedStep]) -> Sequence[AlignedStep]:
        """Return as many of the newest steps as `num_steps` and `lasting_seconds` require, or all steps."""
        seconds = 0.0
        for number, step in enumerate(reversed(steps), 1):
            seconds += step.seconds * step.stands_for
            if number >= self.num_steps and seconds >= self.lasting_seconds:
                return steps[-number:]
        return steps
