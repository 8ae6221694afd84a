"""Find a rank that is a step ahead of or behind the others in its sequence of collectives, while the job still moves.

A rank that swallows an exception and goes on with its next batch has skipped the collectives of a step. From then on
they pair with the collectives of another step of its peers: the gradients of different steps are averaged, and at the
end the ranks do not finish together. Steps are compared by their number, never by time, so it does not matter that the
agents look at different moments. Only operations count whose size is the same on every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from zmon.detectors.parts.awaited_ranks import SAME_SIZE
from zmon.detectors.parts.ends import Limits
from zmon.detectors.parts.new_finding import new_finding
from zmon.detectors.parts.wording import ranks_on, verb
from zmon.format import counted
from zmon.job.restarts import launch_began
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import Evidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot


def sequence_lag(snapshot: Snapshot, detector: str, limits: Limits) -> Finding | None:
    """Return a warning about the ranks whose collectives are shifted by whole steps; None if no rank's are."""
    steps = snapshot.steps
    if not _trains(snapshot):
        return None  # the end of the job has a finding of its own, and the shift does not matter any more
    if len(steps) < limits.num_lag_steps or all(_is_even(step) for step in steps):
        return None
    usual = median(median(_sent(step)) for step in steps)
    lags = _lags(steps, usual, limits.lag_ratio) if usual > 0 else []
    lagging = [r for r in snapshot.reported_ranks if r.rank < len(lags) and lags[r.rank]]
    if not lagging or 2 * len(lagging) > len(snapshot.reported_ranks):
        return None  # the ranks do not do the same work
    first = lagging[0]
    number = lags[first.rank]
    worst = max(steps, key=lambda step: abs(_whole(step, first.rank) - usual * step.stands_for))
    count = counted(abs(number), "step")
    finding = new_finding(
        snapshot,
        detector=detector,
        cause="sequence_lag",
        severity="warning",
        culprits=lagging,
        seconds_ago=0.0,
        confidence=0.8,
        summary=f"the collectives of {ranks_on(lagging)} are shifted by {count} against the others: in steps "
        f"{steps[0].step} to {steps[-1].step} {verb(lagging, 'it', 'they')} entered the collectives of {count} "
        f"{'less' if number < 0 else 'more'}, at about step {worst.step}",
        detail="The rank probably swallowed an exception and went on with its next batch. Since then the gradients of "
        "different steps are averaged, and at the end the ranks will not finish together. Look at its log at that "
        "step. Let the exception end the job, or let all ranks skip the step: `all_reduce` a flag before the backward "
        "pass.",
        evidence=Evidence(num_steps=sum(step.stands_for for step in steps)),
        stalled=False,
    )
    return replace(finding, step=worst.step)


def lasts(snapshot: Snapshot, finding: Finding) -> bool:
    """Return True if a reported shift still exists, although its step is not among the recent ones any more."""
    is_same_launch = launch_began(snapshot) <= finding.onset
    steps = snapshot.steps
    return is_same_launch and _trains(snapshot) and bool(steps) and steps[0].step > (finding.step or 0)


def _trains(snapshot: Snapshot) -> bool:
    return any(r.alive and r.activity != "done" for r in snapshot.reported_ranks)


def _lags(steps: Sequence[AlignedStep], usual: float, lag_ratio: float) -> list[int]:
    """Return for each rank by how many whole steps its collectives are shifted; empty if that explains no rank.

    A rank whose bytes differ in many steps does other work than the others.
    """
    ranks = range(len(steps[0].self_seconds))
    totals = [sum(_whole(step, rank) for step in steps) / usual for rank in ranks]
    number = sum(step.stands_for for step in steps)
    # With two ranks neither is a majority, so the one with the usual bytes in every step is right.
    reference = median(totals) if len(totals) > 2 else min(totals, key=lambda total: abs(total - number))
    shifts = [total - reference for total in totals]
    if any(abs(shift - round(shift)) > lag_ratio for shift in shifts):
        return []
    uneven = [sum(_sent(step)[rank] != median(_sent(step)) for step in steps) for rank in ranks]
    is_rare = all(count <= max(1, len(steps) * lag_ratio) for count in uneven) if len(totals) > 2 else True
    return [round(shift) for shift in shifts] if is_rare else []


def _is_even(step: AlignedStep) -> bool:
    sent = [_sent(each) for each in (step, step.mean) if each is not None]
    return all(min(amounts, default=0) == max(amounts, default=0) for amounts in sent)


def _sent(step: AlignedStep) -> list[int]:
    """Return the bytes that each rank sent in the collectives that have the same size everywhere."""
    columns = [step.sent_bytes[op] for op in SAME_SIZE if op in step.sent_bytes]
    return [sum(amounts) for amounts in zip(*columns, strict=True)] or [0] * len(step.self_seconds)


def _whole(step: AlignedStep, rank: int) -> float:
    """Return the bytes that a rank sent in this step and in those that it stands for."""
    return float(_sent(step.mean or step)[rank]) * step.stands_for
