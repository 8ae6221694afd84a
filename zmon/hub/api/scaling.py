"""The answer of the scaling endpoint: how jobs of a name scale, and the predicted step at other sizes.

Pure; built for each request. The predictions are those of `zmon predict`, with the job's number of ranks, hosts and
samples per rank as defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from zmon.errors import UsageError
from zmon.hub.baseline_recorder import size_now
from zmon.scaling.fit import Model
from zmon.scaling.size_table import SizePrediction, parse_sizes, predict_sizes, size_row
from zmon.scaling.what_if import CHANGES, parse_what_if
from zmon.schema.api import CurvePoint, EfficiencyAnswer, ScalingAnswer, ScalingRequest, SizeNow, SizeRow
from zmon.schema.curve import Point, ScalingCurve
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.row import row_of
from zmon.schema.unknown import Unknown

_MAX_SIZES = 64  # sizes in one answer, to limit the work of the hub
_MAX_DEFAULT_SIZES = 24  # sizes if a request names none; a chart needs no more
_MAX_GROWTH = 8  # the largest default size is this many times the job's own ranks
_MAX_SAMPLES = 1 << 31  # of `batch` or `batch_per_rank`; times the largest number of ranks, the limit of a baseline


@dataclass(frozen=True)
class SizeQuery:
    """The sizes that a request names; None: use those of the job."""

    ranks: Sequence[int] | None = None
    batch: int | None = None  # samples of one step of all ranks together, at each size
    batch_per_rank: int | None = None
    what_ifs: Sequence[str] = ()


def size_query(request: ScalingRequest) -> SizeQuery:
    """Check a request and return its sizes. Raises UsageError for impossible values."""
    if request.batch is not None and request.batch_per_rank is not None:
        why = "batch is for all ranks together, batch_per_rank for each rank"
        raise UsageError("batch and batch_per_rank contradict each other", why, "Give only one of them")
    ranks = None if request.ranks is None else parse_sizes("ranks", request.ranks)
    if ranks and len(ranks) > _MAX_SIZES:
        raise UsageError(f"ranks names {len(ranks)} sizes", f"an answer has at most {_MAX_SIZES}", "Ask for fewer")
    for change in request.what_if:
        parse_what_if(change)
    batch = _parse_samples("batch", request.batch)
    per_rank = _parse_samples("batch_per_rank", request.batch_per_rank)
    return SizeQuery(ranks, batch, per_rank, request.what_if)


def scaling_answer(
    snapshot: Snapshot, state: str, curve: ScalingCurve, model: Model | Unknown, query: SizeQuery
) -> ScalingAnswer:
    """Return the answer. `curve` and `model` are those of the job's name; without a model no size is predicted."""
    return ScalingAnswer(
        job_id=snapshot.job_id,
        name=curve.name,
        points=[curve_point(point) for point in curve.points],
        now=_current_size(snapshot, state),
        unknown=model.reason if isinstance(model, Unknown) else "",
        sizes=[] if isinstance(model, Unknown) else _predicted_sizes(snapshot, curve, model, query),
        what_ifs={key: meaning for key, (meaning, _) in CHANGES.items()},
    )


def _predicted_sizes(snapshot: Snapshot, curve: ScalingCurve, model: Model, query: SizeQuery) -> list[SizeRow]:
    per_rank = query.batch_per_rank or _samples_per_rank(snapshot, curve)
    ranks = query.ranks or _default_sizes(snapshot.world_size, [p.ranks for p in curve.points])
    sizes = predict_sizes(model, [(n, query.batch or n * per_rank) for n in ranks], query.what_ifs)
    return [msgspec.structs.replace(size_row(size), efficiency=_efficiency(curve, size)) for size in sizes]


def _samples_per_rank(snapshot: Snapshot, curve: ScalingCurve) -> int:
    """Return the samples per rank and step: those of the job's last step window, else of the smallest recorded size."""
    last = snapshot.step_windows[-1].samples if snapshot.step_windows else None  # an evaluation changes no batch
    samples, ranks = (last, snapshot.world_size) if last else (curve.points[0].samples, curve.points[0].ranks)
    return max(1, round(samples / ranks))


def _default_sizes(world_size: int, recorded: Sequence[int]) -> list[int]:
    """Return the job's size, the recorded sizes, and powers of two up to 8 times the job's ranks, 24 sizes at most.

    The job's size and the largest recorded sizes are preferred, then the largest powers of two.
    """
    largest = _MAX_GROWTH * world_size
    powers = [1 << n for n in range(largest.bit_length()) if 1 << n >= min(recorded)]
    candidates = dict.fromkeys((world_size, *sorted(recorded, reverse=True), *reversed(powers)))
    return sorted([*candidates][:_MAX_DEFAULT_SIZES])


def _efficiency(curve: ScalingCurve, size: SizePrediction) -> EfficiencyAnswer:
    step = size.step
    efficiency = (
        step if isinstance(step, Unknown) else curve.efficiency(size.ranks, size.samples, step.samples_per_second)
    )
    if isinstance(efficiency, Unknown):
        return EfficiencyAnswer(unknown=efficiency.reason)
    return EfficiencyAnswer(efficiency.ratio, efficiency.scaling)


def _current_size(snapshot: Snapshot, state: str) -> SizeNow | None:
    """Return the size and the speed of the job now; None if they are unknown."""
    now = size_now(snapshot, state)
    if isinstance(now, Unknown):
        return None
    size, seconds = now
    return SizeNow(size.ranks, size.samples, seconds, size.samples / seconds)


def curve_point(point: Point) -> CurvePoint:
    """Return a recorded point as it appears in the answer."""
    return row_of(CurvePoint, point, samples_per_second=point.samples / point.seconds)


def _parse_samples(name: str, text: str | None) -> int | None:
    """Return the number in a parameter of the request, None if it is not given. Raises UsageError."""
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= _MAX_SAMPLES:
        raise UsageError(f"{name}={text} is not a number of samples", "it must be from 1 to 2^31", f"{name}=4096")
    return number
