"""How jobs of this name scale, and what a step should take at other sizes. Pure; made when somebody asks.

What `zmon predict` says, with this job as its default: its number of ranks, its hosts, its samples a rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zmon.errors import UsageError
from zmon.hub.baseline_recorder import now_of
from zmon.scaling.fit import Model
from zmon.scaling.predict import Prediction
from zmon.scaling.size_table import find, numbers, told
from zmon.scaling.what_if import CHANGES, factor_of
from zmon.schema.curve import Curve, Point
from zmon.schema.snapshot import Snapshot

_MOST_SIZES = 64  # in one answer: the hub has other work
_USUAL_SIZES = 24  # at most, where nobody names them: a curve has no use for more
_AHEAD = 8  # times the job's own ranks, where nobody names sizes
_MOST_SAMPLES = 1 << 31  # of a rank: as many times the most ranks is what a baseline may have


@dataclass(frozen=True)
class Asked:
    """What a query named; None: nothing, so that the job says it."""

    ranks: Sequence[int] | None = None
    batch: int | None = None  # samples of a step of all ranks, at each size
    batch_per_rank: int | None = None
    what_ifs: Sequence[str] = ()


def asked(query: Mapping[str, str], what_ifs: Sequence[str] = ()) -> Asked:
    """`what_ifs` are all that the query has. Raises UsageError: it asks for what cannot be."""
    if "batch" in query and "batch_per_rank" in query:
        raise UsageError(
            "batch and batch_per_rank contradict each other", "one is of all ranks, one of each", "Name one"
        )
    ranks = numbers("ranks", query["ranks"]) if "ranks" in query else None
    if ranks and len(ranks) > _MOST_SIZES:
        raise UsageError(f"ranks names {len(ranks)} sizes", f"an answer has {_MOST_SIZES} at most", "Ask for fewer")
    for one in what_ifs:
        factor_of(one)
    return Asked(ranks, _samples(query, "batch"), _samples(query, "batch_per_rank"), what_ifs)


def scaling(snapshot: Snapshot, state: str, curve: Curve, model: Model | str, query: Asked) -> dict[str, Any]:
    """`curve` and `model` are of jobs of its name; without a model no size is told, and why is in `unknown`."""
    return {
        "name": curve.name,
        "points": [_point(p) for p in curve.points],
        "now": _now(snapshot, state),
        "unknown": model if isinstance(model, str) else "",
        "sizes": [] if isinstance(model, str) else _sizes(snapshot, curve, model, query),
        "what_ifs": {key: says for key, (says, _) in CHANGES.items()},
    }


def _sizes(snapshot: Snapshot, curve: Curve, model: Model, query: Asked) -> list[dict[str, Any]]:
    each = query.batch_per_rank or _each(snapshot, curve)
    ranks = query.ranks or _usual(snapshot.world_size, [p.ranks for p in curve.points])
    found = find(model, [(n, query.batch or n * each) for n in ranks], query.what_ifs)
    return [
        {**told(n, samples, step, other), "efficiency": _efficiency(curve, n, samples, step)}
        for n, samples, step, other in found
    ]


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


def _efficiency(curve: Curve, ranks: int, samples: int, step: Prediction | str) -> dict[str, Any]:
    found = step if isinstance(step, str) else curve.efficiency(ranks, samples, step.samples_per_second)
    return {"unknown": found} if isinstance(found, str) else {"ratio": found.ratio, "scaling": found.scaling}


def _now(snapshot: Snapshot, state: str) -> dict[str, Any] | None:
    now = now_of(snapshot, state)
    if isinstance(now, str):
        return None
    size, seconds = now
    rate = size.samples / seconds
    return {"ranks": size.ranks, "samples": size.samples, "seconds": seconds, "samples_per_second": rate}


def _point(point: Point) -> dict[str, Any]:
    return {
        "ranks": point.ranks,
        "samples": point.samples,
        "seconds": point.seconds,
        "half_width_seconds": point.half_width_seconds,
        "by": point.by,
        "recorded": point.recorded,
        "samples_per_second": point.samples / point.seconds,
        "causes": point.causes,
    }


def _samples(query: Mapping[str, str], name: str) -> int | None:
    if name not in query:
        return None
    try:
        number = int(query[name])
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST_SAMPLES:
        raise UsageError(f"{name}={query[name]} is no number of samples", "it goes from 1 to 2^31", f"{name}=4096")
    return number
