"""Steps as a test writes and reads them: one object for each step of a rank, in seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zmon.job import alignment
from zmon.offline.analyze.rows import StepTable, run_uid
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.measures import NS, UNKNOWN, ns
from zmon.schema.steps import DURATION, MEAN, MEAN_STEPS, SAME_SIZE_SENT, START, STEP, Steps, absent

_AMOUNTS = {  # field → column
    "samples": "samples", "lookups": "lookups", "nic_sent_bytes": "nic_sent", "nic_received_bytes": "nic_received",
    "flops": "flops", "memory_traffic_bytes": "memory_traffic",
}  # fmt: skip
_COUNTS = {"count": "calls", "sent_bytes": "bytes_sent", "received_bytes": "bytes_received"}
_TIMES = {"exposed_seconds": "exposed", "inflight_seconds": "inflight"}
_TIME_PREFIXES = ("phase_", *(f"{prefix}_" for prefix in _TIMES.values()))  # of columns in nanoseconds


@dataclass(frozen=True)
class OpTotals:
    """The count, times and bytes of one op."""

    count: int = 0
    exposed_seconds: float = 0.0
    inflight_seconds: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True)
class Measures:
    """Measures of one step, or of all steps so far; None is unknown."""

    phases: dict[str, float] = field(default_factory=dict)
    ops: dict[str, OpTotals] = field(default_factory=dict)
    samples: int | None = None
    lookups: int | None = None
    nic_sent_bytes: int | None = None
    nic_received_bytes: int | None = None
    flops: int | None = None
    memory_traffic_bytes: int | None = None

    @property
    def self_seconds(self) -> float:
        """The time in phases."""
        return sum(self.phases.values())

    @property
    def exposed_seconds(self) -> float:
        """The exposed time in all ops."""
        return sum(op.exposed_seconds for op in self.ops.values())


@dataclass(frozen=True)
class StepRecord:
    """One step of one rank."""

    step: int
    start: float
    duration: float
    measures: Measures
    device_memory_peak_bytes: int | None = None
    mean: Measures | None = None  # of the steps since the one before
    total_sent_bytes: int | None = None


def columns_of(measures: Measures) -> dict[str, int]:
    """Return the values of measures by column, with times in nanoseconds."""
    columns = {f"phase_{phase}": ns(seconds) for phase, seconds in measures.phases.items()}
    for op, totals in measures.ops.items():
        columns |= {f"{prefix}_{op}": getattr(totals, name) for name, prefix in _COUNTS.items()}
        columns |= {f"{prefix}_{op}": ns(getattr(totals, name)) for name, prefix in _TIMES.items()}
    amounts = {column: getattr(measures, name) for name, column in _AMOUNTS.items()}
    return columns | {column: amount for column, amount in amounts.items() if amount is not None}


def totals_of(measures: Measures) -> dict[str, float]:
    """Return the totals of a rank as in `RankState`, with times in seconds."""
    columns = columns_of(measures).items()
    return {name: number * NS if name.startswith(_TIME_PREFIXES) else number for name, number in columns}


def steps_of(records: Mapping[str, Iterable[StepRecord]]) -> Steps:
    """Return the steps of ranks by run uid, in the order of the records."""
    rows = {uid: [*map(_row, of_rank)] for uid, of_rank in records.items()}
    all_rows = [row for of_rank in rows.values() for row in of_rank]
    if any(MEAN_STEPS in row for row in all_rows):
        for row in all_rows:
            row.setdefault(MEAN_STEPS, 0)
    names = dict.fromkeys(name for row in all_rows for name in row)
    columns = {name: [row.get(name, absent(name)) for row in all_rows] for name in names}
    return Steps.from_columns(tuple(rows), tuple(map(len, rows.values())), columns)


def _row(record: StepRecord) -> dict[str, int]:
    row = {STEP: record.step, START: ns(record.start), DURATION: ns(record.duration)}
    row |= columns_of(record.measures)
    if record.device_memory_peak_bytes is not None:
        row["device_memory_peak"] = record.device_memory_peak_bytes
    if record.total_sent_bytes is not None:
        row[SAME_SIZE_SENT] = record.total_sent_bytes
    if record.mean is not None:
        row |= {MEAN_STEPS: 2} | {MEAN + name: number for name, number in columns_of(record.mean).items()}
    return row


def records_of(steps: Steps) -> dict[str, list[StepRecord]]:
    """Return the steps of each rank by run uid."""
    columns = {name: steps.column(name) for name in steps.columns}
    rows = [{name: column[row] for name, column in columns.items()} for row in range(steps.num_rows)]
    records = iter(map(_record, rows))
    result = {}
    for uid, count in zip(steps.run_uids, steps.counts, strict=True):
        result[uid] = [next(records) for _ in range(count)]
    return result


def only_records(steps: Steps) -> list[StepRecord]:
    """Return the steps of the only rank."""
    return [record for of_rank in records_of(steps).values() for record in of_rank]


def _record(row: Mapping[str, int]) -> StepRecord:
    mean = {name.removeprefix(MEAN): number for name, number in row.items() if name.startswith(MEAN)}
    return StepRecord(
        row[STEP],
        row.get(START, 0) * NS,
        row.get(DURATION, 0) * NS,
        measures_of(row),
        _known(row.get("device_memory_peak", UNKNOWN)),
        measures_of(mean) if row.get(MEAN_STEPS) else None,
        _known(row.get(SAME_SIZE_SENT, UNKNOWN)),
    )


def measures_of(row: Mapping[str, float]) -> Measures:
    """Return the measures in columns, whose times are in nanoseconds. Phases and ops that did not run are left out."""
    phases = {
        name.removeprefix("phase_"): time * NS for name, time in row.items() if name.startswith("phase_") and time
    }
    ops: dict[str, dict[str, Any]] = {}
    for name, prefix in {**_COUNTS, **_TIMES}.items():
        for column, number in row.items():
            if column.startswith(f"{prefix}_") and number:
                op = column.removeprefix(f"{prefix}_")
                ops.setdefault(op, {})[name] = number * NS if name in _TIMES else number
    amounts = {name: _known(row.get(column, UNKNOWN)) for name, column in _AMOUNTS.items()}
    return Measures(phases, {op: OpTotals(**totals) for op, totals in ops.items()}, **amounts)


def totals_as_measures(totals: Mapping[str, float]) -> Measures:
    """Return the measures in the totals of a rank, which are as in `RankState`."""
    columns = {name: ns(total) if name.startswith(_TIME_PREFIXES) else total for name, total in totals.items()}
    return measures_of(columns)


def aligned(step: int, ranks: Sequence[StepRecord], stands_for: int = 1) -> AlignedStep:
    """Return the aligned step, given the record of every rank, rank 0 first."""
    uids = {str(rank): rank for rank in range(len(ranks))}
    steps = steps_of({uid: [record] for uid, record in zip(uids, ranks, strict=True)})
    matrix = alignment.matrix([steps], uids, len(ranks))
    assert matrix is not None
    rows = alignment.StepRows(matrix, matrix.ranks.argsort())
    return alignment.align_rows(step, [rows], len(ranks), stands_for)


def _known(number: float) -> Any:
    return None if number == UNKNOWN else number


# Accessor of AlignedStep → prefix of its columns, one for each phase or op; or its column.
_BY_WORD = {"phases": "phase_", "exposed": "exposed_", "sent_bytes": "bytes_sent_", "received_bytes": "bytes_received_"}
_BY_RANK = {"samples": "samples", "lookups": "lookups", "tokens": "tokens", "total_sent_bytes": SAME_SIZE_SENT}


def changed(step: AlignedStep, **changes: Any) -> AlignedStep:
    """Return the step with other columns, by their accessors, or other fields."""
    columns = dict(step.columns)
    for accessor, prefix in _BY_WORD.items():
        if accessor in changes:
            columns = {name: column for name, column in columns.items() if not name.startswith(prefix)}
            columns |= {prefix + word: column for word, column in changes.pop(accessor).items()}
    for accessor, name in _BY_RANK.items():
        if accessor in changes:
            columns[name] = changes.pop(accessor)
    return replace(step, **{"columns": columns, **changes})


def aligned_step(
    step: int, stands_for: int, seconds: float, critical_rank: int, self_seconds: Sequence[float], **columns: Any
) -> AlignedStep:
    """Return an aligned step with these columns, by their accessors."""
    return changed(AlignedStep(step, stands_for, seconds, critical_rank, self_seconds, {}), **columns)


def by_step(log: StepTable) -> dict[tuple[int, int], dict[int, StepRecord]]:
    """Return the steps of a log by attempt and rank, then by number."""
    return {key: {record.step: record for record in only_records(steps)} for key, steps in log.steps.items()}


def set_steps(log: StepTable, records: Mapping[tuple[int, int], Mapping[int, StepRecord]]) -> None:
    """Set the steps of a log, by attempt and rank."""
    log.steps = {key: steps_of({run_uid(key): [*of_rank.values()]}) for key, of_rank in records.items()}
