"""Report work that is split unevenly: one rank always has more than the others, or another rank is slow in each step.

Work is measured in bytes of all-to-all and in embedding lookups, over the recent steps, because random batches burden a
different rank in each step. A rank is compared with the mean of the *other* ranks, which works for two ranks as well.
Uneven work that costs nothing is not reported. The cost is the rank's self time beyond the median, and the part of the
exposed all-to-all that an even split would save.

If no rank is always slow, the steps may still lose time to waiting for the slowest rank, another one in each step. That
loss is taken from step windows, and its cause from the recent steps. It has no culprit. Stages of a pipeline that are
longer than the others are reported as stages, not as ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median
from typing import cast

import numpy as np

from zmon.detectors.new_finding import new_finding
from zmon.detectors.slow.jitter import measure
from zmon.detectors.slow.plan_text import Column, plan_text
from zmon.detectors.slow.stages import LongStage, long_stage, stage_finding
from zmon.detectors.slow.uneven_steps import JITTER_CAUSES, UnevenSteps, uneven_finding, uneven_steps
from zmon.job.columns import middle, values
from zmon.job.efficiency import lasting_loss
from zmon.job.roles import roles
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import Severity
from zmon.schema.thresholds import Multiple, Share, Thresholds
from zmon.stats import quantile

_OP = "all_to_all"


@dataclass(frozen=True)
class _Share:
    """The work of one rank in one step."""

    step: AlignedStep
    amount: int
    total: int
    num_ranks: int  # number of ranks that take part

    @property
    def others(self) -> float:
        """The mean of the other ranks."""
        return (self.total - self.amount) / (self.num_ranks - 1)

    @property
    def uneven_ratio(self) -> float:
        """The ratio of the amount to the mean of the other ranks."""
        return self.amount / self.others if self.others else float("inf")

    @property
    def excess_ratio(self) -> float:
        """The share of the amount that exceeds the mean of all ranks."""
        return max(1 - self.total / self.num_ranks / self.amount, 0.0) if self.amount else 0.0


@dataclass(frozen=True)
class _Work:
    """One kind of work, with the amount of each rank in the steps that report it."""

    verb: str  # what the rank does, in the words of the summary
    unit: str
    plan_column: Column  # the column of a plan with this kind of work
    columns: Sequence[tuple[AlignedStep, Sequence[int], int]]  # step, amount by rank, number of ranks that take part
    cause: str

    def busiest_rank(self) -> tuple[int, list[_Share]]:
        """Return the rank with the largest amount in most steps, and its shares; at least one step is required."""
        rank = Counter(int(values(column).argmax()) for _, column, _ in self.columns).most_common(1)[0][0]
        return rank, [_Share(step, column[rank], sum(column), number) for step, column, number in self.columns]


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
    # A loss to a slow rank that changes must last over this many step windows of at least 5 s; the worst is left out. A
    # pause of one rank, or contention for two seconds, is in one window.
    num_windows: int = 3
    # The loss is reported, as `info`, once it sums to this time. A job that loses most of its steps then shows it after
    # a quarter of a minute.
    noted_seconds: float = 8.0
    # The loss is a warning once it sums to this time: 10 % of 200 s, or a third of a minute. What a job loses while its
    # caches and queues fill, or while another program starts, is less.
    lost_seconds: float = 20.0
    # A step must lose at least this time to a slow rank that changes. The operating system alone delays a process by a
    # millisecond now and then.
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
        return None if not snapshot.steps or snapshot.steps[-1].exposed else "its steps report no collective"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return a finding about the rank that always has most work, and findings about a stage and uneven steps."""
        if not any(r.alive for r in snapshot.ranks):
            return ()
        skew = self._skew(snapshot)
        stage = self._stage(snapshot)
        uneven = self._uneven(snapshot, self.cost_ratio) if skew is None else None
        findings = [skew, stage, self._uneven_finding(snapshot, uneven) if uneven else None]
        return tuple(finding for finding in findings if finding is not None)

    def _skew(self, snapshot: Snapshot) -> Finding | None:
        """Return a finding about the rank with most bytes of all-to-all, else about the rank with most lookups."""
        for work in _works(self._window(snapshot.steps)):
            if len(work.columns) < self.num_steps:
                continue
            rank, shares = work.busiest_rank()
            if (quantile([share.uneven_ratio for share in shares], self.odd_ratio) or 0.0) < self.uneven_ratio:
                continue
            cost = median(_cost(share, rank, work.cause) for share in shares)
            if cost >= self.cost_ratio * median(share.step.seconds for share in shares):
                return self._finding(snapshot, work, rank, shares, cost)
        return None

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
        uneven = uneven_steps(loss, measure(snapshot.steps), self.explained_ratio)
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

    def _finding(
        self, snapshot: Snapshot, work: _Work, rank: int, shares: Sequence[_Share], cost_seconds: float
    ) -> Finding:
        culprits = [r for r in snapshot.reported_ranks if r.rank == rank]
        uneven, seconds = median(s.uneven_ratio for s in shares), median(s.step.seconds for s in shares)
        amount, others = median(s.amount for s in shares), median(s.others for s in shares)
        times = f"{uneven:.1f} × as much as the others" if isfinite(uneven) else "and the others do not"
        text = plan_text(snapshot.plan, rank, work.plan_column, work.unit, amount)
        tables = (
            f"Rank {rank} holds {text.tables}." if text.tables else f"Which tables or experts does rank {rank} hold?"
        )
        status = f" `zmon status --job {snapshot.job_id}` compares the plan with the measurements." if text.plan else ""
        finding = new_finding(
            snapshot,
            detector=self.name,
            cause=work.cause,
            severity="warning",
            culprits=culprits,
            seconds_ago=sum(share.step.seconds * share.step.stands_for for share in shares),
            confidence=0.9,
            stalled=False,
            lost_ratio=cost_seconds / seconds,
            summary=f"rank {rank} on {culprits[0].host if culprits else 'unknown'} {work.verb} {times} "
            f"(threshold {self.uneven_ratio:g} ×): {amount:,.0f} {work.unit} per step against {others:,.0f}; "
            f"this costs up to {cost_seconds * 1000:.1f} ms of the step's {seconds * 1000:.1f} ms "
            f"(threshold {self.cost_ratio:.0%}){text.summary}",
            detail=f"{tables} Move some to other ranks, or split the hot one by rows or columns; then compare "
            f"samples/s.{status} The plan is at fault, not the host: do not drain it.",
            evidence=Evidence(
                uneven_ratio=uneven if isfinite(uneven) else None,
                cost_ratio=cost_seconds / seconds,
                num_steps=len(shares),
                plan=text.plan,
            ),
        )
        return replace(finding, op=_OP if work.cause == "all_to_all_skew" else None, sequence=None)


def _works(steps: Sequence[AlignedStep]) -> tuple[_Work, ...]:
    """Return all kinds of work; a step in which fewer than two ranks take part is left out."""
    exchanges = [(step, _taking_part(step)) for step in steps if _OP in step.sent_bytes]
    received = [(step, step.received_bytes[_OP], number) for step, number in exchanges if number > 1]
    sent = [(step, step.sent_bytes[_OP], number) for step, number in exchanges if number > 1]
    counted = [(step, cast(Sequence[int], step.lookups)) for step in steps if None not in step.lookups]
    lookups = [(step, column, len(column)) for step, column in counted if len(column) > 1 and any(column)]
    return (
        _Work(f"receives in {_OP}", "bytes", "received_bytes", received, cause="all_to_all_skew"),
        _Work(f"sends in {_OP}", "bytes", "sent_bytes", sent, cause="all_to_all_skew"),
        _Work("looks up in its tables", "ids", "lookups", lookups, cause="lookup_skew"),
    )


def _taking_part(step: AlignedStep) -> int:
    """Return the number of ranks that take part in the step's all-to-alls; the others hold no tables."""
    return int(np.count_nonzero(values(step.sent_bytes[_OP]) | values(step.received_bytes[_OP])))


def _cost(share: _Share, rank: int, cause: str) -> float:
    """Return the seconds that an even split would save at best.

    They are the rank's self time beyond the median and, if the all-to-all is uneven, its exposed time beyond the mean.
    """
    step = share.step
    beyond_median = max(step.self_seconds[rank] - middle(step.self_seconds), 0.0)
    if cause != "all_to_all_skew":
        return beyond_median
    last = step.critical_rank
    return beyond_median + step.exposed[_OP][last] * share.excess_ratio
