"""What should a step of this job take, and where does it take longer?

Pure. What was recorded at just this size says it best; else what other sizes let predict; else it is unknown, and why
is said. Phases are one part, `own`: a prediction knows no more of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zmon.fit import fit
from zmon.predict import Prediction
from zmon.schema.curve import IMBALANCE, Curve
from zmon.schema.names import OPS

OWN = "own"
RECORDED, PREDICTED = "recorded", "predicted"


@dataclass(frozen=True, slots=True)
class Expected:
    """A step as it should be, and as it is now."""

    by: str  # RECORDED or PREDICTED
    name: str  # of the curve that says so
    seconds: float
    causes: dict[str, float]  # own, imbalance, and each op; they sum to `seconds`
    now_seconds: float
    now_causes: dict[str, float]

    @property
    def grown(self) -> list[tuple[str, float]]:
        """By how many seconds each part is longer now, the most first."""
        parts = dict.fromkeys((*self.causes, *self.now_causes))
        longer = [(part, self.now_causes.get(part, 0.0) - self.causes.get(part, 0.0)) for part in parts]
        return sorted(longer, key=lambda item: -item[1])


@dataclass(frozen=True)
class Size:
    """Of a job."""

    ranks: int
    samples: int  # of all ranks, a step
    ranks_per_host: int


def expected(curve: Curve, size: Size, seconds: float, causes: Mapping[str, float]) -> Expected | str:
    """For a job of that size whose steps take so long now; else why nobody can tell."""
    now = in_parts(causes)
    point = curve.at(size.ranks, size.samples)
    if point is not None and point.causes:
        more = size.samples / point.samples  # sizes within a tenth of each other are one
        parts = {part: spent * more for part, spent in in_parts(point.causes).items()}
        return Expected(RECORDED, curve.name, point.seconds * more, parts, seconds, now)
    model = fit(curve.points, OPS, ranks_per_host=size.ranks_per_host)
    found = model if isinstance(model, str) else model.at(size.ranks, size.samples)
    if isinstance(found, str):
        return found
    return Expected(PREDICTED, curve.name, found.seconds, parts_of(found), seconds, now)


def parts_of(step: Prediction) -> dict[str, float]:
    """Seconds by part."""
    return {OWN: step.own_seconds, IMBALANCE: step.imbalance_seconds, **step.exposed_seconds}


def in_parts(causes: Mapping[str, float]) -> dict[str, float]:
    """With all phases as one."""
    others = {cause: seconds for cause, seconds in causes.items() if cause in (*OPS, IMBALANCE)}
    return {OWN: sum(causes.values()) - sum(others.values()), **others}
