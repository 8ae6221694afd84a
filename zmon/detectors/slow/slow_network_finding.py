"""Build the finding about a slow link while no rank is late. Pure; all values in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from zmon.detectors.network import NetworkCulprit, slow_network_steps
from zmon.detectors.new_finding import new_finding
from zmon.detectors.slow.step_cost import exposed_seconds, ms
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.evidence import StragglerEvidence
from zmon.schema.finding import Finding
from zmon.schema.job_snapshot import Snapshot


def slow_network_finding(
    snapshot: Snapshot, culprit: NetworkCulprit, steps: Sequence[AlignedStep], quicker_ratio: float
) -> Finding:
    """Return the finding about the host, or the pair of hosts, whose link is slow by `quicker_ratio` or more."""
    baseline = snapshot.baseline
    exposed, seconds = exposed_seconds(steps), median(step.seconds for step in steps)
    baseline_text = "" if baseline is None else f" ({ms(baseline.exposed_seconds)} in the baseline)"
    return new_finding(
        snapshot,
        detector="straggler",
        cause="network_slow",
        severity="warning",
        culprits=(),
        hosts=culprit.hosts,
        seconds_ago=sum(step.stands_for * step.seconds for step in steps),
        confidence=culprit.confidence,
        stalled=False,
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
