"""The expected step of a job, divided into parts that compare with its current step.

Pure. The expected step is the step recorded at the job's own size. If none was recorded, it is predicted from other
sizes. Without a prediction, it is unknown, with the reason. All phases together are one part, `own`, because a
prediction does not divide them further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zmon.scaling.fit import fit
from zmon.scaling.predict import PredictedStep
from zmon.schema.curve import IMBALANCE, ScalingCurve
from zmon.schema.job import PREDICTED, RECORDED, ExpectedStep
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown

SELF_TIME = "own"  # the self time of the median rank


@dataclass(frozen=True)
class JobSize:
    """The size of a job, and how its ranks are spread over hosts."""

    ranks: int
    samples: int  # samples of all ranks in a step
    ranks_per_host: int


def expected_step(
    curve: ScalingCurve, size: JobSize, seconds: float, causes: Mapping[str, float]
) -> ExpectedStep | Unknown:
    """Return the expected step, or the reason why it is unknown; `seconds` and `causes` are of the current step."""
    current_parts = in_parts(causes)
    point = curve.nearest_point(size.ranks, size.samples)
    if point is not None and point.causes:
        ratio = size.samples / point.samples  # the samples differ by a tenth at most
        parts = {part: part_seconds * ratio for part, part_seconds in in_parts(point.causes).items()}
        return ExpectedStep(RECORDED, curve.name, point.seconds * ratio, parts, seconds, current_parts)
    model = fit(curve.points, OPS, ranks_per_host=size.ranks_per_host)
    step = model if isinstance(model, Unknown) else model.predict(size.ranks, size.samples)
    if isinstance(step, Unknown):
        return step
    return ExpectedStep(PREDICTED, curve.name, step.seconds, parts_of(step), seconds, current_parts)


def parts_of(step: PredictedStep) -> dict[str, float]:
    """Return the seconds of a predicted step by part."""
    return {SELF_TIME: step.self_seconds, IMBALANCE: step.imbalance_seconds, **step.exposed_seconds}


def in_parts(causes: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of a step by part: its time categories, with all phases as one part."""
    outside_phases = {cause: seconds for cause, seconds in causes.items() if cause in (*OPS, IMBALANCE)}
    return {SELF_TIME: sum(causes.values()) - sum(outside_phases.values()), **outside_phases}
