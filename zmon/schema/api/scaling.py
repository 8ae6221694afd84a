"""What the hub answers about other sizes of a job: what was recorded, and what a step should take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.names import SCHEMA


class ScalingRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/jobs/{job_id}/scaling`. What a field leaves open, the job says."""

    job_id: str
    ranks: str | None = None  # 1,2,4
    batch: str | None = None  # samples of a step of all ranks, at each size
    batch_per_rank: str | None = None
    what_if: tuple[str, ...] = ()  # net=2, repeated


class CurvePoint(msgspec.Struct, frozen=True):
    """What a step was like at one size."""

    ranks: int
    samples: int  # of all ranks, a step
    seconds: float
    half_width_seconds: float | None  # of the interval around `seconds`
    by: str  # the job it was recorded from
    recorded: float  # unix seconds
    samples_per_second: float
    causes: Mapping[str, float]


class SizeNow(msgspec.Struct, frozen=True):
    """What a step of the job is like now."""

    ranks: int
    samples: int
    seconds: float
    samples_per_second: float


class StepAnswer(msgspec.Struct, frozen=True):
    """A predicted step; only `unknown` where it cannot be predicted."""

    seconds: float | UnsetType = UNSET
    causes: Mapping[str, float] | UnsetType = UNSET
    samples_per_second: float | UnsetType = UNSET
    unknown: str | UnsetType = UNSET


class EfficiencyAnswer(msgspec.Struct, frozen=True):
    """The scaling efficiency of a predicted step; only `unknown` where nothing was recorded that it scales from."""

    ratio: float | UnsetType = UNSET
    scaling: str | UnsetType = UNSET  # weak, strong
    unknown: str | UnsetType = UNSET


class SizeRow(msgspec.Struct, frozen=True):
    """One size: the predicted step, and the same with every what-if."""

    ranks: int
    samples: int
    predicted: StepAnswer
    what_if: StepAnswer | None = None
    efficiency: EfficiencyAnswer | UnsetType = UNSET  # `zmon predict --json` leaves it out


class ScalingAnswer(msgspec.Struct, frozen=True):
    """The curve that was recorded under the job's name, and predictions for other sizes."""

    job_id: str
    name: str  # of the curve
    points: Sequence[CurvePoint]
    now: SizeNow | None
    unknown: str  # why no size can be predicted; empty: they can
    sizes: Sequence[SizeRow]
    what_ifs: Mapping[str, str]  # each factor that can be changed, and what it stands for
    schema: int = SCHEMA
