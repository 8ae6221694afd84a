"""Is the work split unevenly, so that one rank always has more of it than the others, and the step waits for it?

Judged by the bytes of all-to-all and by embedding lookups, over the recent steps: batches that vary at random burden
another rank in each step. A rank is held against the mean of the *others*, which two ranks have as well. Uneven work
that costs nothing is no news: what the rank needs beyond the median one, and what of the exposed all-to-all an even
split would not take, must be a part of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import or_
from statistics import median, median_low
from typing import cast

from zmon.detectors.parts.placed import Column, placed
from zmon.detectors.parts.verdict import verdict
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.snapshot import Snapshot
from zmon.schema.thresholds import Part, Thresholds, Times
from zmon.stats import quantile

_OP = "all_to_all"


@dataclass(frozen=True)
class _Share:
    """What one rank has of a step's work."""

    step: AlignedStep
    amount: int
    total: int
    num_ranks: int  # that take part

    @property
    def others(self) -> float:
        """Mean of the others."""
        return (self.total - self.amount) / (self.num_ranks - 1)

    @property
    def uneven(self) -> float:
        """To the mean of the others."""
        return self.amount / self.others if self.others else float("inf")

    @property
    def beyond(self) -> float:
        """The part of it that is beyond the mean of all."""
        return max(1 - self.total / self.num_ranks / self.amount, 0.0) if self.amount else 0.0


@dataclass(frozen=True)
class _Work:
    """One kind of work: how much of it each rank had, in the steps that tell."""

    does: str
    unit: str
    planned: Column  # what tells of it in a plan
    columns: Sequence[tuple[AlignedStep, Sequence[int], int]]  # step, by rank, ranks that take part
    cause: str

    def of_the_busiest(self) -> tuple[int, list[_Share]]:
        """The rank that has most in most steps, and its shares; of one step at least."""
        rank = Counter(column.index(max(column)) for _, column, _ in self.columns).most_common(1)[0][0]
        return rank, [_Share(step, column[rank], sum(column), number) for step, column, number in self.columns]


@dataclass(frozen=True)
class Imbalance(Thresholds):
    """Thresholds."""

    uneven_ratio: Times = 2.0  # to the mean of the others: tables do not divide evenly, half as much again is usual
    cost_ratio: Part = 0.1  # of the step: what a new plan would save at best must be worth its making
    num_steps: int = 16  # of which all but `odd_ratio` are so: chance among two ranks makes it one in four at most
    odd_ratio: Part = 0.125  # of those steps may be even: an odd batch, not another plan
    lasting_seconds: float = 5.0  # a heavy stretch of one rank's data passes; where fewer are kept, all those
    name = "imbalance"
    separate = False
    causes = ("all_to_all_skew", "lookup_skew")

    def sees(self, snapshot: Snapshot, finding: Finding) -> bool:
        """Once it has seen steps enough."""
        return len(snapshot.steps) >= self.num_steps

    def inert(self, snapshot: Snapshot) -> str | None:
        """Where no step tells of an all-to-all or of lookups, or there is nobody to compare with."""
        if snapshot.world_size < 2:
            return "it has one rank"
        tells = not snapshot.steps or any(work.columns for work in _works(snapshot.steps))
        return None if tells else "its steps tell of no all_to_all and of no lookups"

    def detect(self, snapshot: Snapshot) -> tuple[Finding, ...]:
        """The rank with most bytes of all-to-all, else the one with most lookups."""
        if any(r.alive for r in snapshot.ranks):
            for work in _works(self._window(snapshot.steps)):
                if len(work.columns) < self.num_steps:
                    continue
                rank, shares = work.of_the_busiest()
                if (quantile([share.uneven for share in shares], self.odd_ratio) or 0.0) < self.uneven_ratio:
                    continue
                cost = median(_cost(share, rank, work.cause) for share in shares)
                if cost >= self.cost_ratio * median(share.step.seconds for share in shares):
                    return (self._finding(snapshot, work, rank, shares, cost),)
        return ()

    def _window(self, steps: Sequence[AlignedStep]) -> Sequence[AlignedStep]:
        lasted = 0.0
        for taken, step in enumerate(reversed(steps), 1):
            lasted += step.seconds * step.stands_for
            if taken >= self.num_steps and lasted >= self.lasting_seconds:
                return steps[-taken:]
        return steps

    def _finding(
        self, snapshot: Snapshot, work: _Work, rank: int, shares: Sequence[_Share], cost_seconds: float
    ) -> Finding:
        culprits = [r for r in snapshot.reported_ranks if r.rank == rank]
        uneven, seconds = median(s.uneven for s in shares), median(s.step.seconds for s in shares)
        amount, others = median(s.amount for s in shares), median(s.others for s in shares)
        times = f"{uneven:.1f} × what the others do" if isfinite(uneven) else "what no other does"
        part = placed(snapshot.plan, rank, work.planned, work.unit, amount)
        whose = f"Rank {rank} holds {part.holds}." if part.holds else f"Which tables or experts live on rank {rank}?"
        see = f" `zmon status --job {snapshot.job_id}` shows what was planned and what is." if part.plan else ""
        found = verdict(
            snapshot,
            detector=self.name,
            cause=work.cause,
            severity="warning",
            culprits=culprits,
            seconds_ago=sum(share.step.seconds * share.step.stands_for for share in shares),
            confidence=0.9,
            stalled=False,
            lost_ratio=cost_seconds / seconds,
            summary=f"rank {rank} on {culprits[0].host if culprits else 'unknown'} {work.does} {times} "
            f"(threshold {self.uneven_ratio:g} ×): {amount:,.0f} {work.unit} a step against {others:,.0f}; "
            f"up to {cost_seconds * 1000:.1f} ms of the step's {seconds * 1000:.1f} ms are due to it "
            f"(threshold {self.cost_ratio:.0%}){part.says}",
            detail=f"{whose} Move some to other ranks, or split the hot one by rows or columns; then compare "
            f"samples/s.{see} It is the plan, not the host: do not drain it.",
            evidence=Evidence(
                uneven_ratio=uneven if isfinite(uneven) else None,
                cost_ratio=cost_seconds / seconds,
                num_steps=len(shares),
                plan=part.plan,
            ),
        )
        return replace(found, op=_OP if work.cause == "all_to_all_skew" else None, sequence=None)


def _works(steps: Sequence[AlignedStep]) -> tuple[_Work, ...]:
    """All kinds; a step in which fewer than two ranks take part is left out."""
    exchanges = [(step, _taking_part(step)) for step in steps if _OP in step.sent_bytes]
    received = [(step, step.received_bytes[_OP], number) for step, number in exchanges if number > 1]
    sent = [(step, step.sent_bytes[_OP], number) for step, number in exchanges if number > 1]
    told = [(step, cast(Sequence[int], step.lookups)) for step in steps if None not in step.lookups]
    lookups = [(step, column, len(column)) for step, column in told if len(column) > 1 and any(column)]
    return (
        _Work(f"receives in {_OP}", "bytes", "received_bytes", received, cause="all_to_all_skew"),
        _Work(f"sends in {_OP}", "bytes", "sent_bytes", sent, cause="all_to_all_skew"),
        _Work("looks up in its tables", "ids", "lookups", lookups, cause="lookup_skew"),
    )


def _taking_part(step: AlignedStep) -> int:
    """How many ranks had a part in the step's all-to-alls: tables may live on some only."""
    return sum(map(bool, map(or_, step.sent_bytes[_OP], step.received_bytes[_OP])))


def _cost(share: _Share, rank: int, cause: str) -> float:
    """Seconds that an even split would save at best: what this rank needs beyond the median one, and of the all-to-all,
    if that is what is uneven, what is beyond its mean.
    """
    step = share.step
    own = max(step.self_seconds[rank] - median_low(step.self_seconds), 0.0)
    if cause != "all_to_all_skew":
        return own
    last = step.critical_rank
    return own + step.exposed[_OP][last] * share.beyond
