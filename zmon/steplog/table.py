"""Exports steps as JSON lines or Parquet, one row per rank and step, with only a few rows in memory.

The columns are those of the table of measures (zmon/schema/measures.py). A phase or an op has its columns if it ran in
any step of any run; in the other steps its values are 0. An unknown value is null. Times are in seconds, sizes in
bytes; `start` is unix time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Protocol

import msgspec

from zmon.errors import UsageError, install_command
from zmon.schema.measures import MEASURES, NS, Measure, measure_of
from zmon.schema.names import in_order
from zmon.schema.steps import DURATION, START, STEP
from zmon.steplog.format import Run
from zmon.steplog.reader import Chunk

ROW_GROUP = 32_768  # rows of a Parquet file that are in memory at a time
_LOGGED = tuple(measure for measure in MEASURES if measure.column and measure.logged and measure.column != DURATION)

Row = tuple[str | int | float | None, ...]


class LoggedRun(Protocol):
    """The steps of one run of a rank, from the step log or from an incident."""

    @property
    def run(self) -> Run:
        """The run of the rank."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield the steps, oldest first."""

    def columns(self) -> Iterable[str]:
        """Return the columns that some step of the run may have."""


@dataclass(frozen=True)
class Table:
    """The exported runs and their columns."""

    runs: Sequence[LoggedRun]
    measures: dict[str, Measure]  # by column, for the columns after `duration`
    reports: tuple[str, ...]  # names of the gauges that the jobs reported

    @classmethod
    def from_runs(cls, runs: Sequence[LoggedRun]) -> Table:
        """Return the table of all steps of these runs."""
        present = [known for run in runs for name in run.columns() if (known := measure_of(name))]
        measures: dict[str, Measure] = {}
        for measure in _LOGGED:
            words = in_order((word for other, word in present if other.per == measure.per), measure.words)
            measures |= {measure.column_of(word): measure for word in (words if measure.per else ("",))}
        return cls(runs, measures, tuple(dict.fromkeys(name for run in runs for name in run.run.reports)))

    def columns(self) -> dict[str, type]:
        """Return the names and types of the columns, in order."""
        return {
            **{"job_id": str, "attempt": int, "rank": int, "host": str, "step": int, "start": float, "duration": float},
            **{name: float if measure.unit == "seconds" else int for name, measure in self.measures.items()},
            **{f"report_{name}": float for name in self.reports},
        }

    def rows(self) -> Iterator[Row]:
        """Yield the rows, run by run and step by step."""
        for logged in self.runs:
            run = logged.run
            rank = run.job_id, run.attempt, run.rank, run.host
            for steps, reported in logged.chunks():
                starts = [start * NS for start in steps.column(START)]
                columns = [steps.column(STEP), starts, *map(steps.values, (DURATION, *self.measures))]
                for row, reports in zip(zip(*columns, strict=True), reported, strict=True):
                    yield (*rank, *row, *map(reports.get, self.reports))


def write_json_lines(table: Table, file: BinaryIO) -> int:
    """Write each row as a JSON object; return the number of rows."""
    names = tuple(table.columns())
    written = 0
    for row in table.rows():
        file.write(msgspec.json.encode(dict(zip(names, row, strict=True))) + b"\n")
        written += 1
    return written


def write_parquet(table: Table, file: BinaryIO) -> int:
    """Write the rows as Parquet; return their number. Raises UsageError if pyarrow is not installed."""
    try:
        import pyarrow  # type: ignore[import-untyped]  # 60 MB, loaded only for Parquet
        from pyarrow import parquet
    except ImportError as error:
        next_step = f"Run {install_command('parquet')}, or write a .jsonl file"
        raise UsageError("cannot write Parquet", "pyarrow is not installed", next_step) from error
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[type_]) for name, type_ in table.columns().items()])
    rows = table.rows()
    written = 0
    with parquet.ParquetWriter(file, schema) as writer:
        while group := [*islice(rows, ROW_GROUP)]:
            columns = [pyarrow.array(c, field.type) for c, field in zip(zip(*group, strict=True), schema, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
            written += len(group)
    return written
