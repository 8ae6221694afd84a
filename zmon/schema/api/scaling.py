"""The hub's answer about other sizes of a job: the recorded scaling curve and predicted steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.names import SCHEMA


class ScalingRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs/{job_id}/scaling`. A field that is not given takes its value from the job."""

    job_id: str
    ranks: str | None = None  # sizes to predict, such as 1,2,4
    batch: str | None = None  # samples per step of all ranks, at each size
    batch_per_rank: str | None = None  # samples per step of each rank, at each size
    what_if: tuple[str, ...] = ()  # such as net=2; may be repeated


class CurvePoint(msgspec.Struct, frozen=True):
    """The recorded step at one size."""

    ranks: int
    samples: int  # of all ranks, per step
    seconds: float
    half_width_seconds: float | None  # of the confidence interval around `seconds`
    by: str  # id of the job from which it was recorded
    recorded: float  # unix seconds
    samples_per_second: float
    causes: Mapping[str, float]


class SizeNow(msgspec.Struct, frozen=True):
    """The current step of the job."""

    ranks: int
    samples: int
    seconds: float
    samples_per_second: float


class StepAnswer(msgspec.Struct, frozen=True):
    """A predicted step; only `unknown` is set if it cannot be predicted."""

    seconds: float | UnsetType = UNSET
    causes: Mapping[str, float] | UnsetType = UNSET
    samples_per_second: float | UnsetType = UNSET
    unknown: str | UnsetType = UNSET


class EfficiencyAnswer(msgspec.Struct, frozen=True):
    """The scaling efficiency of a predicted step; only `unknown` is set if no recorded point is its reference."""

    ratio: float | UnsetType = UNSET
    scaling: str | UnsetType = UNSET  # weak or strong
    unknown: str | UnsetType = UNSET


class SizeRow(msgspec.Struct, frozen=True):
    """One size: the predicted step, and the predicted step with every what-if."""

    ranks: int
    samples: int
    predicted: StepAnswer
    what_if: StepAnswer | None = None
    efficiency: EfficiencyAnswer | UnsetType = UNSET  # `zmon predict --json` leaves it out


class ScalingAnswer(msgspec.Struct, frozen=True):
    """The scaling curve recorded under the job's name, and predictions for other sizes."""

    job_id: str
    name: str  # of the curve
    points: Sequence[CurvePoint]
    now: SizeNow | None
    unknown: str  # why no size can be predicted; empty: sizes can be predicted
    sizes: Sequence[SizeRow]
    what_ifs: Mapping[str, str]  # each factor that can be changed, with its meaning
    schema: int = SCHEMA
