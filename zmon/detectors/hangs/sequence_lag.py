"""Find a rank that is a step ahead of or behind the others in its sequence of collectives, while the job still moves.

A rank that swallows an exception and goes on with its next batch has skipped the collectives of a step. From then on
its collectives pair with those of another step of its peers: the gradients of different steps are averaged, and at the
end the ranks do not finish together. Steps are compared by their number, never by time, so it does not matter that the
agents look at different moments. Only operations count whose size is the same on every rank. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from zmon.detectors.hangs.limits import HangLimits
from zmon.detectors.new_finding import new_finding
from zmon.detectors.wording import ranks_on, verb
from zmon.format import counted
from zmon.job.restarts import launch_began
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import StallEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import SAME_SIZE_OPS, SEQUENCE, STALL

# The collectives of a rank are shifted if two things hold. Its bytes differ from the usual ones by whole steps, up to
# this part of a step. And they differ in at most this part of its steps. Otherwise the rank does other work.
_LAG_RATIO = 0.1
# A rank that swallows exceptions gains the collectives of a step or two within one step. One that has no more batches
# gains more: it shadows all steps that the others still have, within one step (torch.distributed.algorithms.join).
_SHADOWED_STEPS = 4


def lag_finding(snapshot: Snapshot, limits: HangLimits) -> Finding | None:
    """Return a warning about the ranks whose collectives are shifted by whole steps; None if there are none."""
    steps = snapshot.steps
    if not _trains(snapshot):
        return None  # the end of the job has a finding of its own, and the shift does not matter any more
    if any(r.dropped_records for r in snapshot.reported_ranks):
        return None  # a collective whose bytes are unknown counts 0 bytes
    if len(steps) < limits.num_lag_steps:
        return None
    sent_bytes = _sent_between(steps[0], steps[-1])
    if not sent_bytes or min(sent_bytes) == max(sent_bytes):
        return None  # unknown, or all ranks have sent the same
    lags = _lags(steps, sent_bytes)
    lagging = [r for r in snapshot.reported_ranks if r.rank < len(lags) and lags[r.rank]]
    if not lagging or 2 * len(lagging) > len(snapshot.reported_ranks):
        return None  # the ranks do not do the same work
    lag = lags[lagging[0].rank]
    onset = _onset(steps, lagging[0].rank)
    count = counted(abs(lag), "step")
    finding = new_finding(
        snapshot,
        detector=STALL,
        cause="sequence_lag",
        severity="warning",
        proof=SEQUENCE,
        culprits=lagging,
        seconds_ago=0.0,
        confidence=0.8,
        summary=f"the collectives of {ranks_on(lagging)} are shifted by {count} against the others: in steps "
        f"{steps[0].step} to {steps[-1].step} {verb(lagging, 'it', 'they')} entered the collectives of {count} "
        f"{'less' if lag < 0 else 'more'}, at about step {onset.step}",
        detail="The rank probably swallowed an exception and went on with its next batch. Since then the gradients of "
        "different steps are averaged, and at the end the ranks will not finish together. Look at its log at that "
        "step. Let the exception end the job, or let all ranks skip the step: `all_reduce` a flag before the backward "
        "pass.",
        evidence=StallEvidence(num_steps=sum(step.stands_for for step in steps)),
    )
    return replace(finding, step=onset.step)


def _onset(steps: Sequence[AlignedStep], rank: int) -> AlignedStep:
    """Return the step in which the bytes of a rank changed most, compared with those of the median rank."""
    sent_so_far = [_sent_between(steps[0], step) for step in steps]
    ahead = [sent[rank] - median(sent) if sent else 0 for sent in sent_so_far]
    return steps[max(range(1, len(steps)), key=lambda index: abs(ahead[index] - ahead[index - 1]))]


def lag_lasts(snapshot: Snapshot, finding: Finding) -> bool:
    """Return True if a reported shift still exists, although its step is not among the recent ones any more."""
    is_same_launch = launch_began(snapshot) <= finding.onset
    steps = snapshot.steps
    return is_same_launch and _trains(snapshot) and bool(steps) and steps[0].step > (finding.step or 0)


def _trains(snapshot: Snapshot) -> bool:
    """Return True if a rank of the job lives and is not done."""
    return any(r.alive and r.activity != "done" for r in snapshot.reported_ranks)


def _sent_between(begin: AlignedStep, end: AlignedStep) -> list[int]:
    """Return the bytes that each rank has sent between the ends of two steps; empty if unknown.

    The ranks' own totals also cover the steps between two that are sampled.
    """
    pairs = list(zip(begin.total_sent_bytes, end.total_sent_bytes, strict=True))
    sent = [now - before for before, now in pairs if before is not None and now is not None]
    return sent if len(sent) == len(pairs) else []


def _lags(steps: Sequence[AlignedStep], sent_bytes: Sequence[int]) -> list[int]:
    """Return for each rank by how many whole steps its collectives are shifted; empty if ranks do other work.

    `sent_bytes` has the bytes that each rank has sent since the first of these steps.
    """
    sent_by_step = [_sent(step) for step in steps]
    medians = [median(amounts) for amounts in sent_by_step]
    usual = median(medians)
    if usual <= 0 or _shadows(steps, usual):
        return []
    sent_steps = [num_bytes / usual for num_bytes in sent_bytes]  # as many usual steps have these bytes
    has_majority = len(sent_bytes) > 2
    num_steps = sum(step.stands_for for step in steps[1:])
    # Of two ranks, the one with the usual bytes in every step is right.
    reference = median(sent_steps) if has_majority else min(sent_steps, key=lambda number: abs(number - num_steps))
    shifts = [number - reference for number in sent_steps]
    if any(abs(shift - round(shift)) > _LAG_RATIO for shift in shifts):
        return []
    num_unusual_steps = [
        sum(amounts[rank] != middle for amounts, middle in zip(sent_by_step, medians, strict=True))
        for rank in range(len(sent_bytes))
    ]
    if max(num_unusual_steps) > max(1, len(steps) * _LAG_RATIO):
        return []
    return [round(shift) for shift in shifts]


def _shadows(steps: Sequence[AlignedStep], usual: float) -> bool:
    """Return True if within one step a rank sent the bytes of many more steps than another rank.

    `usual` has the bytes of one step. Such ranks have different numbers of batches by design, so a step of one is not
    the step of another.
    """
    for before, step in pairwise(steps):
        sent = _sent_between(before, step)
        if sent and max(sent) - min(sent) > _SHADOWED_STEPS * step.stands_for * usual:
            return True
    return False


def _sent(step: AlignedStep) -> list[int]:
    """Return the bytes that each rank sent in this step, in the collectives that have the same size everywhere."""
    columns = [step.sent_bytes[op] for op in SAME_SIZE_OPS if op in step.sent_bytes]
    return [sum(amounts) for amounts in zip(*columns, strict=True)] or [0] * len(step.self_seconds)
