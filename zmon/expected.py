"""What should a step of this job take, and where does it take longer?

Pure. What was recorded at just this size says it best; else what other sizes let predict; else it is unknown, and why
is said. Phases are one part, `own`: a prediction knows no more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zmon.curve import Curve, Point
from zmon.fit import Model, fit
from zmon.predict import Links, Prediction
from zmon.records import OPS

OWN, IMBALANCE = "own", "imbalance"
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


def expected(curve: Curve, ranks: int, samples: int, seconds: float, causes: Mapping[str, float]) -> Expected | str:
    """For a job of that size whose steps take so long now; else why nobody can tell."""
    now = in_parts(causes)
    point = curve.at(ranks, samples)
    if point is not None and point.causes:
        return Expected(RECORDED, curve.name, point.seconds, in_parts(point.causes), seconds, now)
    model = model_of(curve.points)
    found = model if isinstance(model, str) else model.at(ranks, samples)
    if isinstance(found, str):
        return found
    return Expected(PREDICTED, curve.name, found.seconds, parts_of(found), seconds, now)


def model_of(points: Sequence[Point], links: Mapping[str, Links] | None = None) -> Model | str:
    """Made of these points; else why there is none."""
    return fit(points, OPS, links)


def parts_of(step: Prediction) -> dict[str, float]:
    """Seconds by part."""
    return {OWN: step.own_seconds, IMBALANCE: step.imbalance_seconds, **step.exposed_seconds}


def in_parts(causes: Mapping[str, float]) -> dict[str, float]:
    """With all phases as one."""
    others = {cause: seconds for cause, seconds in causes.items() if cause in (*OPS, IMBALANCE)}
    return {OWN: sum(causes.values()) - sum(others.values()), **others}
