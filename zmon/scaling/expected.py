"""What should a step of this job take, and where does it take longer?

Pure. What was recorded at just this size says it best; else what other sizes let predict; else it is unknown, and why
is said. Phases are one part, `own`: a prediction knows no more of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zmon.scaling.fit import fit
from zmon.scaling.predict import Prediction
from zmon.schema.curve import IMBALANCE, Curve
from zmon.schema.expected import PREDICTED, RECORDED, Expected
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown

OWN = "own"


@dataclass(frozen=True)
class JobSize:
    """Of a job."""

    ranks: int
    samples: int  # of all ranks, a step
    ranks_per_host: int


def expected(curve: Curve, size: JobSize, seconds: float, causes: Mapping[str, float]) -> Expected | Unknown:
    """For a job of that size whose steps take so long now; else why nobody can tell."""
    now = in_parts(causes)
    point = curve.at(size.ranks, size.samples)
    if point is not None and point.causes:
        more = size.samples / point.samples  # sizes within a tenth of each other are one
        parts = {part: spent * more for part, spent in in_parts(point.causes).items()}
        return Expected(RECORDED, curve.name, point.seconds * more, parts, seconds, now)
    model = fit(curve.points, OPS, ranks_per_host=size.ranks_per_host)
    found = model if isinstance(model, Unknown) else model.at(size.ranks, size.samples)
    if isinstance(found, Unknown):
        return found
    return Expected(PREDICTED, curve.name, found.seconds, parts_of(found), seconds, now)


def parts_of(step: Prediction) -> dict[str, float]:
    """Seconds by part."""
    return {OWN: step.own_seconds, IMBALANCE: step.imbalance_seconds, **step.exposed_seconds}


def in_parts(causes: Mapping[str, float]) -> dict[str, float]:
    """With all phases as one."""
    others = {cause: seconds for cause, seconds in causes.items() if cause in (*OPS, IMBALANCE)}
    return {OWN: sum(causes.values()) - sum(others.values()), **others}
