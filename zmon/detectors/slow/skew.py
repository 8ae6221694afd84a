"""Find one rank that always has more work than the others, and compare its work with the trainer's plan. Pure.

Work is measured in bytes of all-to-all and in embedding lookups. A rank is compared with the mean of the *other* ranks,
which works for two ranks as well. Nothing is decided from the plan: whether the prediction or the placement was wrong
is a question for the planner's author.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median
from typing import Literal, NamedTuple, cast

import numpy as np
from msgspec import UNSET, UnsetType

from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import tables
from zmon.job.columns import middle, values
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import ImbalanceEvidence, PlannedShare
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.plan import Plan
from zmon.stats import quantile

_OP = "all_to_all"


class _WorkOfStep(NamedTuple):
    """One kind of work in one step."""

    step: AlignedStep
    amounts: Sequence[int]  # by rank
    num_ranks: int  # number of ranks that take part


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

    activity: str  # what the rank does, in the words of the summary
    unit: str
    plan_column: Literal["lookups", "sent_bytes", "received_bytes"]  # the column of a plan with this kind of work
    steps: Sequence[_WorkOfStep]
    cause: str

    def busiest_rank(self) -> tuple[int, list[_Share]]:
        """Return the rank with the largest amount in most steps, and its shares; at least one step is required."""
        rank = Counter(int(values(work.amounts).argmax()) for work in self.steps).most_common(1)[0][0]
        return rank, [_Share(w.step, w.amounts[rank], sum(w.amounts), w.num_ranks) for w in self.steps]


class Skew(NamedTuple):
    """The rank that always has most of one kind of work, and what that costs."""

    work: _Work
    rank: int
    shares: Sequence[_Share]
    cost_seconds: float  # per step
    step_seconds: float


def costly_skew(
    steps: Sequence[AlignedStep], num_steps: int, uneven_ratio: float, odd_ratio: float, cost_ratio: float
) -> Skew | None:
    """Return the rank with most bytes of all-to-all, else the rank with most lookups; None if none costs enough.

    `uneven_ratio` is how many times the mean work of the others a rank must have, except in a share `odd_ratio` of the
    steps. `cost_ratio` is the least cost as a share of the step.
    """
    for work in _kinds_of_work(steps):
        if len(work.steps) < num_steps:
            continue
        rank, shares = work.busiest_rank()
        if (quantile([share.uneven_ratio for share in shares], odd_ratio) or 0.0) < uneven_ratio:
            continue
        cost = median(_cost(share, rank, work.cause) for share in shares)
        seconds = median(share.step.seconds for share in shares)
        if cost >= cost_ratio * seconds:
            return Skew(work, rank, shares, cost, seconds)
    return None


def skew_finding(snapshot: Snapshot, skew: Skew, uneven_ratio: float, cost_ratio: float) -> Finding:
    """Return the finding about the rank with most work."""
    work, rank, shares, cost_seconds, seconds = skew
    culprits = [r for r in snapshot.reported_ranks if r.rank == rank]
    uneven = median(s.uneven_ratio for s in shares)
    amount = median(s.amount for s in shares)
    others = median(s.others for s in shares)
    times = f"{uneven:.1f} × as much as the others" if isfinite(uneven) else "and the others do not"
    comparison = _comparison_with_plan(snapshot.plan, rank, work, amount)
    held = f"Which tables or experts does rank {rank} hold?"
    if comparison.held_tables:
        held = f"Rank {rank} holds {comparison.held_tables}."
    status = ""
    if comparison.share:
        status = f" `zmon status --job {snapshot.job_id}` compares the plan with the measurements."
    finding = new_finding(
        snapshot,
        detector="imbalance",
        cause=work.cause,
        severity="warning",
        proof=STEPS,
        culprits=culprits,
        seconds_ago=sum(share.step.seconds * share.step.stands_for for share in shares),
        confidence=0.9,
        lost_ratio=cost_seconds / seconds,
        summary=f"rank {rank} on {culprits[0].host if culprits else 'unknown'} {work.activity} {times} "
        f"(threshold {uneven_ratio:g} ×): {amount:,.0f} {work.unit} per step against {others:,.0f}; "
        f"this costs up to {cost_seconds * 1000:.1f} ms of the step's {seconds * 1000:.1f} ms "
        f"(threshold {cost_ratio:.0%}){comparison.summary}",
        detail=f"{held} Move some to other ranks, or split the hot one by rows or columns; then compare "
        f"samples/s.{status} The plan is at fault, not the host: do not drain it.",
        evidence=ImbalanceEvidence(
            uneven_ratio=uneven if isfinite(uneven) else None,
            cost_ratio=cost_seconds / seconds,
            num_steps=len(shares),
            plan=comparison.share,
        ),
    )
    return replace(finding, op=_OP if work.cause == "all_to_all_skew" else None, sequence=None)


class _Comparison(NamedTuple):
    """The tables and work of a rank, compared with the trainer's plan; empty without a plan."""

    held_tables: str = ""
    summary: str = ""  # the end of the summary
    share: PlannedShare | UnsetType = UNSET


def _comparison_with_plan(plan: Plan | None, rank: int, work: _Work, measured: float) -> _Comparison:
    """Compare the measured work of a rank per step with the work that the plan gave it."""
    if plan is None:
        return _Comparison()
    names = plan.tables[rank]
    num_tables = plan.num_tables[rank]
    planned = getattr(plan, work.plan_column)[rank]
    held_tables = tables(names, num_tables or len(names)) if names else ""
    summary = f"; it holds {held_tables}" if held_tables else ""
    if planned is not None:
        times = f", it has {measured / planned:.1f} × that" if planned else ""
        summary += f"; {planned:,} {work.unit} were planned{times}"
    return _Comparison(held_tables, summary, PlannedShare(names, num_tables, planned, measured, work.unit))


def _kinds_of_work(steps: Sequence[AlignedStep]) -> tuple[_Work, ...]:
    """Return all kinds of work; a step in which fewer than two ranks take part is left out."""
    num_ranks = [(step, _num_exchanging(step)) for step in steps if _OP in step.sent_bytes]
    exchanges = [(step, number) for step, number in num_ranks if number > 1]
    received = [_WorkOfStep(step, step.received_bytes[_OP], number) for step, number in exchanges]
    sent = [_WorkOfStep(step, step.sent_bytes[_OP], number) for step, number in exchanges]
    reported = [(step, cast(Sequence[int], step.lookups)) for step in steps if None not in step.lookups]
    lookups = [_WorkOfStep(step, column, len(column)) for step, column in reported if len(column) > 1 and any(column)]
    return (
        _Work(f"receives in {_OP}", "bytes", "received_bytes", received, cause="all_to_all_skew"),
        _Work(f"sends in {_OP}", "bytes", "sent_bytes", sent, cause="all_to_all_skew"),
        _Work("looks up in its tables", "ids", "lookups", lookups, cause="lookup_skew"),
    )


def _num_exchanging(step: AlignedStep) -> int:
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
    return beyond_median + step.exposed[_OP][step.critical_rank] * share.excess_ratio
