"""The step records of all agents in one pass, as arrays: one value per record, of all ranks together.

Pure. numpy is a dependency of the hub and of offline analysis, which import this module; no rank and no agent does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmon.schema.step_columns import Column, MeasureColumns, StepColumns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_RAN = Column(1)
UNKNOWN = np.iinfo(np.int64).min  # an unknown number in an array; numbers from outside are above it
_MAX_SECONDS = 1e11  # as `zmon.schema.limits.Seconds`
_MOST = 1 << 62  # as `zmon.schema.limits.Whole`; a log can claim more, which is unknown as well


@dataclass(frozen=True)
class MeasureArrays:
    """The measures of all records."""

    phases: Mapping[str, Floats]
    exposed: Mapping[str, Floats]
    sent_bytes: Mapping[str, Integers]
    received_bytes: Mapping[str, Integers]
    samples: Integers
    lookups: Integers
    flops: Integers
    memory_traffic: Integers
    ran_phases: Mapping[str, Integers]  # 1 where the phase ran; only of phases that did not run in all records
    ran_ops: Mapping[str, Integers]


@dataclass(frozen=True)
class StepBatch:
    """Records of the same phases and ops."""

    ranks: Integers
    steps: Integers
    measures: MeasureArrays
    mean: MeasureArrays
    has_mean: NDArray[np.bool_]
    total_sent_bytes: Integers


def batches(columns: Iterable[StepColumns], ranks: Mapping[str, int], world_size: int) -> Iterator[StepBatch]:
    """Yield the records in these columns of the ranks of one launch. `ranks`: run uid → rank.

    All ranks of most jobs run the same phases and ops, so there is one batch.
    """
    alike: defaultdict[tuple[tuple[str, ...], ...], list[StepColumns]] = defaultdict(list)
    for each in columns:
        if each.num_records:
            alike[_names(each)].append(each)
    for group in alike.values():
        uids = chain.from_iterable(each.run_uids for each in group)
        counts = [*chain.from_iterable(each.counts for each in group)]
        of_record = np.repeat(np.array([ranks.get(uid, -1) for uid in uids], np.int64), counts)
        chosen = np.flatnonzero((of_record >= 0) & (of_record < world_size))
        if len(chosen):
            yield _batch(group, of_record, chosen)


def _names(columns: StepColumns) -> tuple[tuple[str, ...], ...]:
    parts = (columns.measures, columns.mean or columns.measures)
    return tuple(names for part in parts for names in (tuple(part.phases), tuple(part.exposed)))


def _batch(group: Sequence[StepColumns], ranks: Integers, chosen: Integers) -> StepBatch:
    sizes = np.array([each.num_records for each in group])
    is_all = len(chosen) == len(ranks)

    def whole(columns: Iterable[Column]) -> Integers:
        values = _whole([*columns], sizes)
        return values if is_all else values[chosen]

    def seconds(columns: Iterable[Column]) -> Floats:
        values = _seconds([*columns], sizes)
        return values if is_all else values[chosen]

    def measures(parts: Sequence[MeasureColumns]) -> MeasureArrays:
        first = parts[0]
        return MeasureArrays(
            phases={name: seconds(part.phases[name] for part in parts) for name in first.phases},
            exposed={name: seconds(part.exposed[name] for part in parts) for name in first.exposed},
            sent_bytes={name: whole(part.sent_bytes[name] for part in parts) for name in first.exposed},
            received_bytes={name: whole(part.received_bytes[name] for part in parts) for name in first.exposed},
            samples=whole(part.samples for part in parts),
            lookups=whole(part.lookups for part in parts),
            flops=whole(part.flops for part in parts),
            memory_traffic=whole(part.memory_traffic for part in parts),
            ran_phases={
                name: whole(part.ran_phases.get(name, _RAN) for part in parts)
                for name in {name for part in parts for name in part.ran_phases}
                if name in first.phases
            },
            ran_ops={
                name: whole(part.ran_ops.get(name, _RAN) for part in parts)
                for name in {name for part in parts for name in part.ran_ops}
                if name in first.exposed
            },
        )

    own = measures([each.measures for each in group])
    any_mean = any(each.mean is not None for each in group)
    return StepBatch(
        ranks=ranks if is_all else ranks[chosen],
        steps=whole(each.steps for each in group),
        measures=own,
        mean=measures([each.mean or each.measures for each in group]) if any_mean else own,
        has_mean=whole(each.has_mean for each in group) > 0,
        total_sent_bytes=whole(each.total_sent_bytes for each in group),
    )


def _seconds(columns: Sequence[Column], sizes: Integers) -> Floats:
    """Return the seconds of all records, given one column for each agent, with its number of records."""
    bases = np.array([column.base for column in columns], np.float64)
    result: Floats = np.repeat(bases, sizes) + _differences(columns, sizes)
    return result.clip(-_MAX_SECONDS, _MAX_SECONDS)


def _whole(columns: Sequence[Column], sizes: Integers) -> Integers:
    """Return the numbers of all records, given one column for each agent, with its number of records."""
    bases = np.array([_number(column.base) for column in columns], np.int64)
    result: Integers = np.repeat(bases, sizes)
    known = result + _differences(columns, sizes).astype(np.int64)
    if any(column.values for column in columns):
        for column, end, size in zip(columns, np.cumsum(sizes).tolist(), sizes.tolist(), strict=True):
            if column.values:
                known[end - size : end] = [_number(value) for value in column.values]
    return known


def _number(value: float | None) -> int:
    return UNKNOWN if value is None or abs(value) > _MOST else int(value)


def _differences(columns: Sequence[Column], sizes: Integers) -> NDArray[Any]:
    """Return the differences of all records from the base of their column."""
    codes = {column.code for column in columns}
    if codes == {""}:
        return np.zeros(1, np.int64)
    if len(codes) == 1:
        return np.frombuffer(b"".join([column.data for column in columns]), f"<{codes.pop()}")
    parts = zip(columns, sizes.tolist(), strict=True)
    return np.concatenate(
        [np.frombuffer(c.data, f"<{c.code}") if c.code else np.zeros(size, np.uint8) for c, size in parts]
    )
