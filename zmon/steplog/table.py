"""Exports steps as JSON lines or Parquet, one row per rank and step, with only a few rows in memory.

A phase or an op has its columns if it ever ran in one of the runs. In a step in which it did not run it is 0. A value
that is unknown is null. Seconds and bytes; `start` is unix time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Protocol

import msgspec

from zmon.errors import UsageError, install_command
from zmon.schema.names import OPS, PHASES, in_order
from zmon.schema.step import Measures, OpTotals
from zmon.steplog.format import Run
from zmon.steplog.reader import Step

ROW_GROUP = 32_768  # rows of a Parquet file that are in memory at a time
_DID_NOT_RUN = OpTotals()
_WORK: dict[str, Callable[[Measures], int | None]] = {
    "flops": lambda measures: measures.flops,
    "memory_traffic": lambda measures: measures.memory_traffic_bytes,
}

Row = tuple[str | int | float | None, ...]


class Steps(Protocol):
    """The steps of one run of a rank, from the step log or from an incident."""

    @property
    def run(self) -> Run:
        """The run of the rank."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps, oldest first."""

    def totals(self) -> Measures:
        """Return the totals of the run, whose phases and ops become columns."""


@dataclass(frozen=True)
class Table:
    """The exported runs and their columns."""

    runs: Sequence[Steps]
    phases: tuple[str, ...]
    ops: tuple[str, ...]
    reports: tuple[str, ...]
    work: tuple[str, ...] = ()  # operations and memory traffic, if a run has them

    @classmethod
    def from_runs(cls, runs: Sequence[Steps]) -> Table:
        """Return the table of all steps of these runs."""
        totals = [run.totals() for run in runs]
        return cls(
            runs,
            in_order((phase for measures in totals for phase in measures.phases), PHASES),
            in_order((op for measures in totals for op in measures.ops), OPS),
            tuple(dict.fromkeys(name for run in runs for name in run.run.reports)),
            tuple(name for name in _WORK if any(_WORK[name](measures) is not None for measures in totals)),
        )

    def columns(self) -> dict[str, type]:
        """Return the names and types of the columns, in order."""
        return {
            **{"job_id": str, "attempt": int, "rank": int, "host": str, "step": int, "start": float, "duration": float},
            **{"samples": int, "lookups": int},
            **dict.fromkeys(self.work, int),
            **{f"phase_{phase}": float for phase in self.phases},
            **{f"{what}_{op}": float for what in ("exposed", "inflight") for op in self.ops},
            **{f"bytes_{way}_{op}": int for way in ("sent", "received") for op in self.ops},
            **{"nic_sent": int, "nic_received": int, "device_memory_peak": int},
            **{f"report_{name}": float for name in self.reports},
        }

    def rows(self) -> Iterator[Row]:
        """Yield the rows, run by run and step by step."""
        for steps in self.runs:
            run = steps.run
            for start, record, reported in steps.steps():
                measures = record.measures
                ops = [measures.ops.get(op, _DID_NOT_RUN) for op in self.ops]
                yield (
                    run.job_id, run.attempt, run.rank, run.host, record.step, start, record.duration,
                    measures.samples, measures.lookups, *[_WORK[name](measures) for name in self.work],
                    *[measures.phases.get(phase, 0.0) for phase in self.phases],
                    *[op.exposed_seconds for op in ops],
                    *[op.inflight_seconds for op in ops],
                    *[op.sent_bytes for op in ops],
                    *[op.received_bytes for op in ops],
                    measures.nic_sent_bytes, measures.nic_received_bytes, record.device_memory_peak_bytes,
                    *[reported.get(name) for name in self.reports],
                )  # fmt: skip


def write_json_lines(table: Table, file: BinaryIO) -> int:
    """Write each row as a JSON object; return the number of rows."""
    names, encode, written = tuple(table.columns()), msgspec.json.encode, 0
    for row in table.rows():
        file.write(encode(dict(zip(names, row, strict=True))) + b"\n")
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
    rows, written = table.rows(), 0
    with parquet.ParquetWriter(file, schema) as writer:
        while group := [*islice(rows, ROW_GROUP)]:
            columns = [pyarrow.array(c, field.type) for c, field in zip(zip(*group, strict=True), schema, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
            written += len(group)
    return written
