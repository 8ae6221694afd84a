"""The expected step of a job, beside the step that it takes now. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass

RECORDED, PREDICTED = "recorded", "predicted"


@dataclass(frozen=True, slots=True)
class ExpectedStep:
    """The expected step of a job and its current step."""

    by: str  # RECORDED or PREDICTED
    name: str  # name of the scaling curve
    seconds: float
    causes: dict[str, float]  # own (self time), imbalance, and each op; they sum to `seconds`
    now_seconds: float
    now_causes: dict[str, float]

    @property
    def grown(self) -> list[tuple[str, float]]:
        """The seconds by which each part is longer now than expected, the largest first."""
        parts = dict.fromkeys((*self.causes, *self.now_causes))
        longer = [(part, self.now_causes.get(part, 0.0) - self.causes.get(part, 0.0)) for part in parts]
        return sorted(longer, key=lambda item: -item[1])
