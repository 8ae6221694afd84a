"""What a step of a job should take, and what it takes now. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass

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
