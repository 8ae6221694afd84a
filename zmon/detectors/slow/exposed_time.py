"""Report the link of a host that is slow while no rank is late. Pure; all values in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from zmon.detectors.network import NetworkCulprit, slow_network_steps
from zmon.detectors.new_finding import new_finding
from zmon.detectors.slow.step_cost import ms
from zmon.schema.aligned_step import AlignedStep, Baseline
from zmon.schema.evidence import StragglerEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.names import STEPS
from zmon.schema.rank import RankState


def exposed_too_long(
    steps: Sequence[AlignedStep], baseline: Baseline | None, grown_ratio: float, exposed_ratio: float
) -> bool:
    """Return True if the exposed time is too long in each third of the steps.

    It is too long if it has grown by `grown_ratio` of the baseline's step, or is `exposed_ratio` of a step.
    """
    third = len(steps) // 3
    smallest = min(_exposed_seconds(steps[first : first + third]) for first in range(0, 3 * third, third))
    has_grown = baseline is not None and smallest - baseline.exposed_seconds >= grown_ratio * baseline.seconds
    return has_grown or smallest >= exposed_ratio * median(step.seconds for step in steps)


def _exposed_seconds(steps: Sequence[AlignedStep]) -> float:
    """Return the median exposed time of the steps' critical ranks."""
    return median(step.exposed_seconds for step in steps)


def may_stand_still(ranks: Sequence[RankState], steps: Sequence[AlignedStep]) -> bool:
    """Return True if no rank has finished a step for longer than a typical one of these steps takes.

    The traffic since then belongs to a step that may never end, so it does not show how fast a connection is.
    """
    return min(r.step_seconds for r in ranks) > median(step.seconds for step in steps)


def slow_network_finding(
    snapshot: Snapshot, culprit: NetworkCulprit, steps: Sequence[AlignedStep], quicker_ratio: float
) -> Finding:
    """Return the finding about the host, or the pair of hosts, whose link is slow by `quicker_ratio` or more."""
    baseline = snapshot.baseline
    exposed = _exposed_seconds(steps)
    seconds = median(step.seconds for step in steps)
    baseline_text = "" if baseline is None else f" ({ms(baseline.exposed_seconds)} in the baseline)"
    return new_finding(
        snapshot,
        detector="straggler",
        cause="network_slow",
        severity="warning",
        proof=STEPS,
        hosts=culprit.hosts,
        seconds_ago=sum(step.stands_for * step.seconds for step in steps),
        confidence=culprit.confidence,
        lost_ratio=None if baseline is None else max(exposed - baseline.exposed_seconds, 0.0) / seconds,
        summary=f"{culprit.place} holds the others back: {culprit.summary} (threshold "
        f"{quicker_ratio:g} times); {ms(exposed)} of a step of {ms(seconds)} are exposed time in collectives"
        f"{baseline_text}, and no rank is late for them",
        detail=slow_network_steps(culprit),
        evidence=StragglerEvidence(
            device=culprit.device,
            links=culprit.links,
            step_seconds=seconds,
            exposed_seconds=exposed,
            good_exposed_seconds=None if baseline is None else baseline.exposed_seconds,
        ),
    )
