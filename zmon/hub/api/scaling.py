"""How jobs of this name scale, and what a step should take at other sizes. Pure; made when somebody asks.

What `zmon predict` says, with this job as its default: its number of ranks, its hosts, its samples a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from zmon.errors import UsageError
from zmon.hub.baseline_recorder import now_of
from zmon.scaling.fit import Model
from zmon.scaling.size_table import SizePrediction, parse_sizes, predict_sizes, size_row
from zmon.scaling.what_if import CHANGES, parse_what_if
from zmon.schema.api import CurvePoint, EfficiencyAnswer, ScalingAnswer, ScalingRequest, SizeNow, SizeRow
from zmon.schema.curve import Curve, Point
from zmon.schema.snapshot import Snapshot
from zmon.schema.unknown import Unknown

_MOST_SIZES = 64  # in one answer: the hub has other work
_USUAL_SIZES = 24  # at most, where nobody names them: a curve has no use for more
_AHEAD = 8  # times the job's own ranks, where nobody names sizes
_MOST_SAMPLES = 1 << 31  # of a rank: as many times the most ranks is what a baseline may have


@dataclass(frozen=True)
class SizeQuery:
    """What a request named; None: nothing, so that the job says it."""

    ranks: Sequence[int] | None = None
    batch: int | None = None  # samples of a step of all ranks, at each size
    batch_per_rank: int | None = None
    what_ifs: Sequence[str] = ()


def size_query(request: ScalingRequest) -> SizeQuery:
    """Check a request. Raises UsageError: it asks for what cannot be."""
    if request.batch is not None and request.batch_per_rank is not None:
        raise UsageError(
            "batch and batch_per_rank contradict each other", "one is of all ranks, one of each", "Name one"
        )
    ranks = None if request.ranks is None else parse_sizes("ranks", request.ranks)
    if ranks and len(ranks) > _MOST_SIZES:
        raise UsageError(f"ranks names {len(ranks)} sizes", f"an answer has {_MOST_SIZES} at most", "Ask for fewer")
    for change in request.what_if:
        parse_what_if(change)
    batch, batch_per_rank = _samples("batch", request.batch), _samples("batch_per_rank", request.batch_per_rank)
    return SizeQuery(ranks, batch, batch_per_rank, request.what_if)


def scaling_answer(
    snapshot: Snapshot, state: str, curve: Curve, model: Model | Unknown, query: SizeQuery
) -> ScalingAnswer:
    """`curve` and `model` are of jobs of its name; without a model no size is predicted."""
    return ScalingAnswer(
        job_id=snapshot.job_id,
        name=curve.name,
        points=[curve_point(point) for point in curve.points],
        now=_now(snapshot, state),
        unknown=model.reason if isinstance(model, Unknown) else "",
        sizes=[] if isinstance(model, Unknown) else _sizes(snapshot, curve, model, query),
        what_ifs={key: meaning for key, (meaning, _) in CHANGES.items()},
    )


def _sizes(snapshot: Snapshot, curve: Curve, model: Model, query: SizeQuery) -> list[SizeRow]:
    each = query.batch_per_rank or _each(snapshot, curve)
    ranks = query.ranks or _usual(snapshot.world_size, [p.ranks for p in curve.points])
    sizes = predict_sizes(model, [(n, query.batch or n * each) for n in ranks], query.what_ifs)
    return [msgspec.structs.replace(size_row(size), efficiency=_efficiency(curve, size)) for size in sizes]


def _each(snapshot: Snapshot, curve: Curve) -> int:
    """Samples of a rank: as the job had last (an evaluation changes no batch), else as the smallest size has."""
    last = snapshot.stretches[-1].samples if snapshot.stretches else None
    samples, ranks = (last, snapshot.world_size) if last else (curve.points[0].samples, curve.points[0].ranks)
    return max(1, round(samples / ranks))


def _usual(world_size: int, recorded: Sequence[int]) -> list[int]:
    """The job's size, those recorded, and powers of two to some times its ranks; of too many the largest."""
    most = _AHEAD * world_size
    powers = [1 << n for n in range(most.bit_length()) if 1 << n >= min(recorded)]
    wanted = dict.fromkeys((world_size, *sorted(recorded, reverse=True), *reversed(powers)))
    return sorted([*wanted][:_USUAL_SIZES])


def _efficiency(curve: Curve, size: SizePrediction) -> EfficiencyAnswer:
    step = size.step
    efficiency = (
        step if isinstance(step, Unknown) else curve.efficiency(size.ranks, size.samples, step.samples_per_second)
    )
    if isinstance(efficiency, Unknown):
        return EfficiencyAnswer(unknown=efficiency.reason)
    return EfficiencyAnswer(efficiency.ratio, efficiency.scaling)


def _now(snapshot: Snapshot, state: str) -> SizeNow | None:
    now = now_of(snapshot, state)
    if isinstance(now, Unknown):
        return None
    size, seconds = now
    return SizeNow(size.ranks, size.samples, seconds, size.samples / seconds)


def curve_point(point: Point) -> CurvePoint:
    """A recorded point as the answer has it."""
    return CurvePoint(
        ranks=point.ranks,
        samples=point.samples,
        seconds=point.seconds,
        half_width_seconds=point.half_width_seconds,
        by=point.by,
        recorded=point.recorded,
        samples_per_second=point.samples / point.seconds,
        causes=point.causes,
    )


def _samples(name: str, words: str | None) -> int | None:
    if words is None:
        return None
    try:
        number = int(words)
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST_SAMPLES:
        raise UsageError(f"{name}={words} is no number of samples", "it goes from 1 to 2^31", f"{name}=4096")
    return number
