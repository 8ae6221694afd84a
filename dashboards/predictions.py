"""Predicted steps and efficiencies from the hub, or None where they are unknown.

The hub leaves out a field that it does not know, and gives the reason in `unknown`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec import UNSET, UnsetType

from zmon.schema.api import EfficiencyAnswer, StepAnswer

T = TypeVar("T")


@dataclass(frozen=True)
class PredictedStep:
    """A predicted step with its time categories."""

    seconds: float
    seconds_by_category: Mapping[str, float]
    samples_per_second: float


def predicted_step(step: StepAnswer | None) -> PredictedStep | None:
    """Return the step, or None if it cannot be predicted."""
    if step is None or step.unknown is not UNSET:
        return None
    # The hub sends either all three fields or a reason. This test is only for mypy.
    if step.seconds is UNSET or step.causes is UNSET or step.samples_per_second is UNSET:
        return None
    return PredictedStep(step.seconds, step.causes, step.samples_per_second)


def why_unknown(step: StepAnswer) -> str:
    """Return the reason why a step cannot be predicted."""
    return _or_none(step.unknown) or "the hub gives no reason"


def efficiency_ratio(efficiency: EfficiencyAnswer | UnsetType) -> float | None:
    """Return the scaling efficiency of a predicted step, or None if it is unknown."""
    return None if efficiency is UNSET else _or_none(efficiency.ratio)


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value
