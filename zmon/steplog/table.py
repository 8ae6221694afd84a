"""Steps as rows, a row per rank and step, written as JSON lines or Parquet without holding more than a few of them.

A phase or an op has its columns if it ever ran in one of the runs. Where it did not run in a step it is 0, for that is
known; what is not known is null. Seconds and bytes; `start` is unix time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Protocol

import msgspec

from zmon.errors import UsageError
from zmon.schema.names import OPS, PHASES, in_order
from zmon.schema.step import Measures, OpTotals
from zmon.steplog.format import Run
from zmon.steplog.reader import Step

ROW_GROUP = 32_768  # rows of a Parquet file that are in memory at a time
_DID_NOT_RUN = OpTotals()

Row = tuple[str | int | float | None, ...]


class Steps(Protocol):
    """The steps of one run of a rank, from wherever they are."""

    @property
    def run(self) -> Run:
        """Whose."""

    def steps(self) -> Iterator[Step]:
        """Oldest first."""

    def so_far(self) -> Measures:
        """What it ever did: for a column each."""


@dataclass(frozen=True)
class Table:
    """What is exported: these runs, with the columns that they need."""

    runs: Sequence[Steps]
    phases: tuple[str, ...]
    ops: tuple[str, ...]
    reports: tuple[str, ...]

    @classmethod
    def of(cls, runs: Sequence[Steps]) -> Table:
        """All steps of these runs."""
        ran = [run.so_far() for run in runs]
        return cls(
            runs,
            in_order((phase for measures in ran for phase in measures.phases), PHASES),
            in_order((op for measures in ran for op in measures.ops), OPS),
            tuple(dict.fromkeys(name for run in runs for name in run.run.reports)),
        )

    def columns(self) -> dict[str, type]:
        """Names and types, in their order."""
        return {
            **{"job_id": str, "attempt": int, "rank": int, "host": str, "step": int, "start": float, "duration": float},
            **{"samples": int, "lookups": int},
            **{f"phase_{phase}": float for phase in self.phases},
            **{f"{what}_{op}": float for what in ("exposed", "inflight") for op in self.ops},
            **{f"bytes_{way}_{op}": int for way in ("sent", "received") for op in self.ops},
            **{"nic_sent": int, "nic_received": int, "device_memory_peak": int},
            **{f"report_{name}": float for name in self.reports},
        }

    def rows(self) -> Iterator[Row]:
        """Run by run, step by step."""
        for steps in self.runs:
            run = steps.run
            for start, record, reported in steps.steps():
                measures = record.measures
                ops = [measures.ops.get(op, _DID_NOT_RUN) for op in self.ops]
                yield (
                    run.job_id, run.attempt, run.rank, run.host, record.step, start, record.duration,
                    measures.samples, measures.lookups,
                    *[measures.phases.get(phase, 0.0) for phase in self.phases],
                    *[op.exposed_seconds for op in ops],
                    *[op.inflight_seconds for op in ops],
                    *[op.sent_bytes for op in ops],
                    *[op.received_bytes for op in ops],
                    measures.nic_sent_bytes, measures.nic_received_bytes, record.device_memory_peak_bytes,
                    *[reported.get(name) for name in self.reports],
                )  # fmt: skip


def write_json_lines(table: Table, file: BinaryIO) -> int:
    """An object a row; returns how many."""
    names, encode, written = tuple(table.columns()), msgspec.json.encode, 0
    for row in table.rows():
        file.write(encode(dict(zip(names, row, strict=True))) + b"\n")
        written += 1
    return written


def write_parquet(table: Table, file: BinaryIO) -> int:
    """A table; returns how many rows. Raises UsageError where pyarrow is not installed."""
    try:
        import pyarrow  # type: ignore[import-untyped]  # 60 MB that only those load who want it
        from pyarrow import parquet
    except ImportError as error:
        install = "pip install 'zmon[parquet]', or write .jsonl"
        raise UsageError("cannot write Parquet", "pyarrow is not installed", install) from error
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types[type_]) for name, type_ in table.columns().items()])
    rows, written = table.rows(), 0
    with parquet.ParquetWriter(file, schema) as writer:
        while group := [*islice(rows, ROW_GROUP)]:
            columns = [pyarrow.array(c, field.type) for c, field in zip(zip(*group, strict=True), schema, strict=True)]
            writer.write_table(pyarrow.table(columns, schema=schema))
            written += len(group)
    return written
