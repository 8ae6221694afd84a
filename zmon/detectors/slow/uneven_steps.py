"""Report steps that lose time because in each of them a different rank is slow, or has a larger batch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zmon.detectors.new_finding import new_finding
from zmon.detectors.slow.jitter import Jitter
from zmon.detectors.slow.step_cost import ms
from zmon.job.efficiency import LastingLoss
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import ImbalanceEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS, Severity

JITTER_CAUSES = ("input_jitter", "compute_jitter", "work_imbalance")  # in each step a different rank is slow
_BUSY_RATIO = 0.3  # share of the last minute in which some process of a host waited for a core; only for the text
_REASONS = {  # {} is the phase that made the slowest rank late
    "input_jitter": "it waits for data or copies it (mostly in {})",
    "compute_jitter": "it computes longer than the others (mostly in {})",
    "work_imbalance": "its samples, tokens, lookups or bytes of that step exceed those of the others (mostly in {})",
}
_NEXT = {
    "input_jitter": "The loaders are fast enough on average, but not in every step, and the slowest one decides. Let "
    "them work ahead: a larger `prefetch_factor`, more workers (`num_workers`), `persistent_workers`, `pin_memory`. "
    "Find what is slow now and then: large samples, cold files, a shared disk (`iostat -x 2 3` on each host), and "
    "move the data nearer. No host is at fault: do not drain one.",
    "compute_jitter": "If samples differ in length, group them by length and give each rank about as many tokens. If "
    "the garbage collector pauses ranks at different steps, run it on all ranks at the same step: `gc.freeze()` and "
    "`gc.disable()` after the start, `gc.collect()` every few hundred steps. If ranks compete for cores, start fewer "
    "threads (`OMP_NUM_THREADS`) and pin ranks to cores (`taskset`, `numactl`). No host is at fault: do not drain one.",
    "work_imbalance": "Split each batch by its amount of work instead of its number of samples: group samples by "
    "length or number of lookups, and give each rank about as much (a balancing batch sampler). Spread the tables or "
    "experts whose load changes over more ranks. No host is at fault: do not drain one.",
}


@dataclass(frozen=True)
class UnevenSteps:
    """The loss of uneven steps, with its cause."""

    cause: str
    ratio: float  # share of each step that evenness would save
    lost_seconds: float  # all time that has been lost since the loss began
    seconds: float  # since the loss began
    jitter: Jitter


def uneven_steps(loss: LastingLoss, jitter: Jitter, explained_ratio: float) -> UnevenSteps:
    """Return the part of a lasting loss that is not due to a rank that is always slow."""
    cause, share = _cause(jitter, explained_ratio)
    lost_seconds = share * loss.lost_seconds
    return UnevenSteps(cause, ratio=share * loss.ratio, lost_seconds=lost_seconds, seconds=loss.seconds, jitter=jitter)


def _cause(jitter: Jitter, explained_ratio: float) -> tuple[str, float]:
    """Return the cause, and the share of the loss that it explains."""
    if jitter.worked_ratio >= explained_ratio:
        return "work_imbalance", jitter.worked_ratio
    if jitter.input_ratio >= explained_ratio:
        return "input_jitter", jitter.changing_ratio
    return "compute_jitter", jitter.changing_ratio


def uneven_finding(snapshot: Snapshot, uneven: UnevenSteps, severity: Severity, cost_ratio: float) -> Finding:
    """Return the finding about uneven steps. It names no rank."""
    jitter = uneven.jitter
    saved = uneven.ratio * jitter.step_seconds
    return new_finding(
        snapshot,
        detector="imbalance",
        cause=uneven.cause,
        severity=severity,
        proof=STEPS,
        seconds_ago=uneven.seconds,
        confidence=0.9 if jitter.by_chance else 0.7,
        lost_ratio=uneven.ratio,
        summary=f"{uneven.ratio:.0%} of each step is lost to waiting for its slowest rank (threshold {cost_ratio:.0%}),"
        f" {_slowest(jitter)}: {_REASONS[uneven.cause].format(jitter.phase)}, for {uneven.seconds:.0f} s; if all ranks "
        f"took equally long, each step of {ms(jitter.step_seconds)} would be {ms(saved)} shorter"
        f"{_more_samples(snapshot.steps, uneven.ratio)}{_busy_hosts(snapshot)}",
        detail=_NEXT[uneven.cause],
        evidence=ImbalanceEvidence(
            cost_ratio=round(uneven.ratio, 4),
            lost_ratio_by_phase={name: round(share, 4) for name, share in jitter.by_phase.items()},
            worked_ratio=round(jitter.worked_ratio, 4),
            slowest_ratio={str(jitter.slowest_rank): round(jitter.slowest_ratio, 4)},
            step_seconds=jitter.step_seconds,
            saved_seconds=saved,
            num_steps=sum(step.stands_for for step in snapshot.steps),
        ),
    )


def _slowest(jitter: Jitter) -> str:
    """Return which ranks are slow, for the summary."""
    if jitter.by_chance:
        return "a different one in each step"
    return f"which changes from step to step (rank {jitter.slowest_rank} for {jitter.slowest_ratio:.0%} of the loss)"


def _more_samples(steps: Sequence[AlignedStep], ratio: float) -> str:
    """Return what evenness would gain, for the summary; empty if a rank does not report its samples."""
    samples = [number for step in steps for number in step.samples if number is not None]
    if len(samples) < sum(len(step.samples) for step in steps) or not any(samples):
        return ""
    now = sum(samples) / sum(step.seconds for step in steps)
    return f" and the job would do {now / (1 - ratio):,.0f} samples/s instead of {now:,.0f}"


def _busy_hosts(snapshot: Snapshot) -> str:
    """Return the hosts on which processes compete for cores, for the summary; empty if there are none."""
    busy = [w.host for w in snapshot.hardware if w.pressure_ratio.get("cpu", 0.0) >= _BUSY_RATIO]
    return f"; processes wait for a core on {', '.join(busy[:4])}" if busy else ""
