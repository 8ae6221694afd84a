"""Find the role whose ranks all take longer than the ranks of the other roles: a stage that has more work. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from zmon.detectors.new_finding import new_finding
from zmon.detectors.slow.step_cost import MAX_RANKS, ms
from zmon.job.roles import Role
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import ImbalanceEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS

_NEXT = (
    "Move layers from this stage to the others; the last stage often has the output layer and the loss, the first the "
    "embedding. Or give it more ranks. If only some of its ranks are slow, or its layers equal the others', compare "
    "its hosts with the others (`nvidia-smi`, `top`). The split is at fault, not a host: do not drain it."
)


@dataclass(frozen=True)
class LongStage:
    """The role with the longest self time over some steps. All times are seconds per step."""

    role: Role
    seconds: float  # self time of its median rank
    others_seconds: float  # self time of the median other role
    longest_ratio: float  # share of the steps in which it takes longest
    saved_seconds: float  # the step would be this much shorter if it took as long as the others
    step_seconds: float
    by_role: dict[str, float]  # self time of the median rank, by role


def long_stage(steps: Sequence[AlignedStep], roles: Sequence[Role]) -> LongStage:
    """Return the role that takes longest; at least one step and two roles are required."""
    rows = [[median(step.self_seconds[rank] for rank in role.ranks) for role in roles] for step in steps]
    typical = [median(column) for column in zip(*rows, strict=True)]
    longest = typical.index(max(typical))
    members = set(roles[longest].ranks)
    saved = []
    for step, row in zip(steps, rows, strict=True):
        excess = row[longest] - median(row[:longest] + row[longest + 1 :])
        shortened = [time - excess if rank in members else time for rank, time in enumerate(step.self_seconds)]
        saved.append(max(step.self_seconds) - max(shortened))
    return LongStage(
        role=roles[longest],
        seconds=typical[longest],
        others_seconds=median(typical[:longest] + typical[longest + 1 :]),
        longest_ratio=sum(row[longest] == max(row) for row in rows) / len(rows),
        saved_seconds=max(fmean(saved), 0.0),
        step_seconds=fmean(step.seconds for step in steps),
        by_role={role.name: round(seconds, 6) for role, seconds in zip(roles, typical, strict=True)},
    )


def stage_finding(
    snapshot: Snapshot, stage: LongStage, steps: Sequence[AlignedStep], longer_ratio: float, cost_ratio: float
) -> Finding:
    """Return the finding about a stage that takes longer than the others by `longer_ratio`. It names no rank."""
    longer = stage.seconds / max(stage.others_seconds, 1e-6) - 1
    longest_first = sorted(stage.by_role, key=lambda name: -stage.by_role[name])[:MAX_RANKS]
    return new_finding(
        snapshot,
        detector="imbalance",
        cause="stage_imbalance",
        severity="warning",
        proof=STEPS,
        seconds_ago=sum(step.seconds * step.stands_for for step in steps),
        confidence=0.8,
        lost_ratio=stage.saved_seconds / stage.step_seconds,
        summary=f"{stage.role.stage} takes {longer:.0%} longer than the other stages (threshold "
        f"{longer_ratio:.0%}): {ms(stage.seconds)} of self time per step against {ms(stage.others_seconds)}; with "
        f"stages of equal length each step of {ms(stage.step_seconds)} would be {ms(stage.saved_seconds)} shorter, "
        f"{stage.saved_seconds / stage.step_seconds:.0%} (threshold {cost_ratio:.0%})",
        detail=_NEXT,
        evidence=ImbalanceEvidence(
            own_seconds_by_role={name: stage.by_role[name] for name in longest_first},
            role=stage.role.name,
            step_seconds=stage.step_seconds,
            saved_seconds=stage.saved_seconds,
            cost_ratio=stage.saved_seconds / stage.step_seconds,
            num_steps=sum(step.stands_for for step in steps),
        ),
    )
