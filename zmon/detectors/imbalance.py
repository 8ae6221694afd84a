"""Report work that is split unevenly, so that one rank always has more than the others and the step waits for it.

Work is measured in bytes of all-to-all and in embedding lookups, over the recent steps, because random batches burden a
different rank in each step. A rank is compared with the mean of the *other* ranks, which works for two ranks as well.
Uneven work that costs nothing is not reported. The cost is the rank's self time beyond the median, and the part of the
exposed all-to-all that an even split would save.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import or_
from statistics import median, median_low
from typing import cast

from zmon.detectors.parts.new_finding import new_finding
from zmon.detectors.parts.plan_text import Column, plan_text
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
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
        rank = Counter(column.index(max(column)) for _, column, _ in self.columns).most_common(1)[0][0]
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
    name = "imbalance"
    separate = False
    causes = ("all_to_all_skew", "lookup_skew")

    def can_resolve(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Return True once there are enough steps."""
        return len(snapshot.steps) >= self.num_steps

    def inert_reason(self, snapshot: Snapshot) -> str | None:
        """Return a reason if the steps have no all-to-all and no lookups, or if there is only one rank."""
        if snapshot.world_size < 2:
            return "it has one rank"
        measured = not snapshot.steps or any(work.columns for work in _works(snapshot.steps))
        return None if measured else "its steps report no all_to_all and no lookups"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """Return a finding about the rank with most bytes of all-to-all, else about the rank with most lookups."""
        if any(r.alive for r in snapshot.ranks):
            for work in _works(self._window(snapshot.steps)):
                if len(work.columns) < self.num_steps:
                    continue
                rank, shares = work.busiest_rank()
                if (quantile([share.uneven_ratio for share in shares], self.odd_ratio) or 0.0) < self.uneven_ratio:
                    continue
                cost = median(_cost(share, rank, work.cause) for share in shares)
                if cost >= self.cost_ratio * median(share.step.seconds for share in shares):
                    return (self._finding(snapshot, work, rank, shares, cost),)
        return ()

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
    return sum(map(bool, map(or_, step.sent_bytes[_OP], step.received_bytes[_OP])))


def _cost(share: _Share, rank: int, cause: str) -> float:
    """Return the seconds that an even split would save at best.

    They are the rank's self time beyond the median and, if the all-to-all is uneven, its exposed time beyond the mean.
    """
    step = share.step
    beyond_median = max(step.self_seconds[rank] - median_low(step.self_seconds), 0.0)
    if cause != "all_to_all_skew":
        return beyond_median
    last = step.critical_rank
    return beyond_median + step.exposed[_OP][last] * share.excess_ratio
