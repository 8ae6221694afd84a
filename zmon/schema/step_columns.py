"""The step records of several ranks as columns: what a pass of the hub compares, in few bytes.

Only the measures that are aligned over all ranks are in it (`zmon.schema.aligned_step`). A column has one value per
record. It is sent as the lowest value and the differences from it, in the smallest integers that hold them, or as
floats of 32 bits: a measure that is the same in all records costs a few bytes. Seconds keep seven digits on the way.
Standard library only, because agents write columns.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from zmon.format import plain
from zmon.schema.limits import Seconds, Whole
from zmon.schema.step import Measures, StepRecord

_UNSIGNED = tuple((code, (1 << 8 * array(code).itemsize) - 1) for code in "BHI")
_SIZES = {"": 0, **{code: array(code).itemsize for code, _ in _UNSIGNED}}
_SECONDS = {code: array(code).itemsize for code in "fd"}
# What the hub makes of one report. A constant column has a few bytes on the way and eight for each record in an array.
MAX_RECORDS_OF_RANK = 1024  # an agent reads no more, and a hub asks for about eight
MAX_NAMES = 64  # phases, or ops; a box has eight phases and sixteen ops
MAX_VALUES = 1 << 22  # records × columns, 32 MiB; 512 ranks with sixteen records of all phases and ops have a third


class Column(msgspec.Struct, frozen=True, array_like=True):
    """The values of one measure.

    `base` is added to each value in `data`, and is the value of every record if `data` is empty. Values of which some
    are unknown, or too large for an array, are in `values`.
    """

    base: Whole | Seconds | None = None  # None: unknown
    code: str = ""  # type code of the module array; little-endian
    data: bytes = b""
    values: tuple[Whole | None, ...] = ()


Columns: TypeAlias = dict[str, Column]


class MeasureColumns(msgspec.Struct, frozen=True, array_like=True):
    """The measures of all records. A phase or op that did not run in a record has 0 there."""

    phases: Columns
    exposed: Columns  # op → exposed seconds
    sent_bytes: Columns
    received_bytes: Columns
    samples: Column
    lookups: Column
    ran_phases: Columns = {}  # 1 where the phase ran, 0 where not; only of phases that did not run in all records
    ran_ops: Columns = {}
    flops: Column = Column()
    memory_traffic: Column = Column()  # bytes


class StepColumns(msgspec.Struct, frozen=True, array_like=True):
    """The records of some ranks of one job: those of the first rank, then those of the second, and so on."""

    run_uids: tuple[str, ...]
    counts: tuple[Whole, ...]  # number of records of each rank
    steps: Column
    measures: MeasureColumns
    mean: MeasureColumns | None  # of the steps since the record before; None: no record has a mean
    has_mean: Column  # 1 or 0; a record without a mean has its own measures in `mean`
    total_sent_bytes: Column

    @property
    def num_records(self) -> int:
        """The number of records of all ranks together."""
        return sum(self.counts)


def step_columns(records: Mapping[str, Sequence[StepRecord]], code: Literal["f", "d"] = "d") -> StepColumns:
    """Return the columns of records by run uid. `code` is the type of seconds: `f` has 32 bits, `d` 64."""
    rows = [record for of_rank in records.values() for record in of_rank]
    means = [row.mean or row.measures for row in rows] if any(row.mean for row in rows) else None
    return StepColumns(
        run_uids=tuple(records),
        counts=tuple(map(len, records.values())),
        steps=_whole([row.step for row in rows]),
        measures=_measures([row.measures for row in rows], code),
        mean=None if means is None else _measures(means, code),
        has_mean=_whole([int(row.mean is not None) for row in rows]),
        total_sent_bytes=_whole([row.total_sent_bytes for row in rows]),
    )


def _measures(rows: Sequence[Measures], code: str) -> MeasureColumns:
    phases = dict.fromkeys(phase for row in rows for phase in row.phases)
    ops = dict.fromkeys(op for row in rows for op in row.ops)
    totals = {op: [row.ops.get(op) for row in rows] for op in ops}
    return MeasureColumns(
        phases={phase: _seconds([row.phases.get(phase, 0.0) for row in rows], code) for phase in phases},
        exposed={op: _seconds([t.exposed_seconds if t else 0.0 for t in totals[op]], code) for op in ops},
        sent_bytes={op: _whole([t.sent_bytes if t else 0 for t in totals[op]]) for op in ops},
        received_bytes={op: _whole([t.received_bytes if t else 0 for t in totals[op]]) for op in ops},
        samples=_whole([row.samples for row in rows]),
        lookups=_whole([row.lookups for row in rows]),
        ran_phases=_ran(phases, [row.phases for row in rows]),
        ran_ops=_ran(ops, [row.ops for row in rows]),
        flops=_whole([row.flops for row in rows]),
        memory_traffic=_whole([row.memory_traffic_bytes for row in rows]),
    )


def _ran(names: Iterable[str], rows: Sequence[Mapping[str, object]]) -> Columns:
    flags = {name: [int(name in row) for row in rows] for name in names}
    return {name: _whole(ran) for name, ran in flags.items() if not all(ran)}


def _seconds(values: Sequence[float], code: str) -> Column:
    """Return a column of seconds."""
    if len(set(values)) <= 1:
        return Column(values[0] if values else 0.0)
    return Column(0.0, code, _little_endian(array(code, values)))


def _whole(values: Sequence[int | None]) -> Column:
    """Return a column of whole numbers, some of which may be unknown."""
    if len({*values}) <= 1:
        return Column(values[0] if values else 0)
    known = [value for value in values if value is not None]
    low = min(known)
    spread = max(known) - low
    code = next((code for code, most in _UNSIGNED if spread <= most), None)
    if code is None or len(known) < len(values):
        return Column(values=tuple(values))
    return Column(low, code, _little_endian(array(code, [value - low for value in known])))


def _little_endian(values: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def check_columns(columns: StepColumns) -> int:
    """Return the number of values in these columns, see `check_values`.

    Raise ValueError if the columns do not fit together, or if a value is not possible.
    """
    number = columns.num_records
    if len(columns.run_uids) != len(columns.counts) or any(count < 0 for count in columns.counts):
        raise ValueError("the numbers of its records do not belong to its ranks")
    if len({*columns.run_uids}) < len(columns.run_uids):
        raise ValueError("a rank is there twice")
    _check_most(columns.counts)
    num_columns = 3
    for part in (columns.measures, columns.mean):
        if part is not None:
            _check_names(part.phases, part.exposed)
            num_columns += 4 + len(part.phases) + 3 * len(part.exposed) + len(part.ran_phases) + len(part.ran_ops)
            names = (*part.phases, *part.exposed)
            if any(plain(name) != name for name in names):
                raise ValueError("the name of a phase or op is not plain text")
            if not part.exposed.keys() == part.sent_bytes.keys() == part.received_bytes.keys():
                raise ValueError("an op has times or bytes only")
            _check_seconds([*part.phases.values(), *part.exposed.values()], number)
            _check_numbers([*part.sent_bytes.values(), *part.received_bytes.values()], number)
            amounts = (part.samples, part.lookups, part.flops, part.memory_traffic)
            _check_numbers((*amounts, *part.ran_phases.values(), *part.ran_ops.values()), number)
    _check_numbers((columns.steps, columns.has_mean, columns.total_sent_bytes), number)
    if not columns.steps.code and (columns.steps.base is None or columns.steps.values):
        raise ValueError("a record has no step")
    return number * num_columns


def check_records(records: Mapping[str, Sequence[StepRecord]]) -> int:
    """Return the most values that columns of these records have. Raise ValueError if no agent sends such records."""
    counts = [*map(len, records.values())]
    _check_most(counts)
    rows = [record for of_rank in records.values() for record in of_rank]
    measures = [part for row in rows for part in (row.measures, row.mean) if part is not None]
    phases = {name for part in measures for name in part.phases}
    ops = {name for part in measures for name in part.ops}
    _check_names(phases, ops)
    return sum(counts) * (3 + 2 * (4 + 2 * len(phases) + 4 * len(ops)))


def check_values(number: int) -> None:
    """Raise ValueError if the columns of one report have more values than any agent sends."""
    if number > MAX_VALUES:
        raise ValueError(f"its steps are {number:,} values; zmon accepts {MAX_VALUES:,}")


def _check_most(counts: Sequence[int]) -> None:
    if (most := max(counts, default=0)) > MAX_RECORDS_OF_RANK:
        raise ValueError(f"a rank has {most:,} records; zmon accepts {MAX_RECORDS_OF_RANK:,}")


def _check_names(phases: Collection[str], ops: Collection[str]) -> None:
    if len(phases) > MAX_NAMES or len(ops) > MAX_NAMES:
        raise ValueError(f"it has {len(phases)} phases and {len(ops)} ops; zmon accepts {MAX_NAMES} of each")


def _check_numbers(columns: Iterable[Column], number: int) -> None:
    for column in columns:
        size = _SIZES.get(column.code)
        if size is None or len(column.data) != size * number:
            raise ValueError("a column has not one value per record")
        if not isinstance(column.base, int if column.code else int | None):
            raise ValueError("a number is not whole")
        if column.values and (column.code or len(column.values) != number):
            raise ValueError("a column has not one value per record")


def _check_seconds(columns: Sequence[Column], number: int) -> None:
    """Check columns of seconds, all of the same type."""
    code = next((column.code for column in columns if column.code), "d")
    for column in columns:
        if column.values or column.base is None or (column.code and column.base):
            raise ValueError("a duration is unknown")
        if column.code not in ("", code) or len(column.data) != _SECONDS.get(column.code, 0) * number:
            raise ValueError("a column has not one value per record")
    if code not in _SECONDS:
        raise ValueError("a duration is not a float")
    values = array(code, b"".join(column.data for column in columns))
    if sys.byteorder == "big":
        values.byteswap()
    if not math.isfinite(sum(values)):  # one of them is NaN or infinite; zmon.job.step_batch limits the others
        raise ValueError("a duration is not possible")
