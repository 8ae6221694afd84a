"""Reads files: the rows of a Parquet or JSON-lines table, or unpacked bytes. Errors are one line each."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from zmon.errors import UsageError, install_command
from zmon.format import plain, plain_json
from zmon.schema.names import JOB_ID

Row = Mapping[str, Any]


def job_id_of(path: Path) -> str:
    """Return the id of the job whose trace this file has: the name of its folder, if that can be one."""
    name = path.absolute().parent.name
    return name if JOB_ID.fullmatch(name) else "unnamed"


def rows(path: Path) -> tuple[int, Iterator[Row | None]]:
    """Return the approximate number of rows, and the rows (None: a line that is no row). Raises UsageError."""
    if path.suffix == ".parquet":
        return _parquet(path)
    if path.suffix not in (".jsonl", ".json", ".ndjson"):
        raise UsageError(f"cannot read {path}", "its format is unknown", "The name must end in .parquet or .jsonl")
    try:
        with path.open("rb") as file:
            num_lines = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    except OSError as error:
        raise UsageError(f"cannot read {path}", error.strerror or str(error)) from error
    return num_lines, _json_lines(path)


def columns(path: Path) -> set[str]:
    """Return the names of the columns of a Parquet file. Raises UsageError."""
    return set(_open_parquet(path).schema_arrow.names)


@contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; if its name ends in .gz, it is unpacked. Raises UsageError, also while it is read."""
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            yield cast(BinaryIO, stack.enter_context(gzip.open(file)) if path.suffix == ".gz" else file)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read {path}", getattr(error, "strerror", None) or str(error)) from error


def _json_lines(path: Path) -> Iterator[Row | None]:
    """Yield the row in each line that is not empty; None if it is no row. Raises OSError."""
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                try:
                    row = msgspec.json.decode(plain_json(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    row = None
                yield row if isinstance(row, dict) else None


def _parquet(path: Path) -> tuple[int, Iterator[Row | None]]:
    file = _open_parquet(path)

    def batches() -> Iterator[Row]:
        import pyarrow  # type: ignore[import-untyped]

        try:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield {
                        plain(name): plain(value) if isinstance(value, str) else value for name, value in row.items()
                    }
        except (pyarrow.ArrowException, ValueError) as error:
            raise UsageError(f"cannot read {path}", str(error).splitlines()[0]) from error

    return file.metadata.num_rows, batches()


def _open_parquet(path: Path) -> Any:
    """Return the opened pyarrow.parquet.ParquetFile. Raises UsageError."""
    try:
        import pyarrow  # 60 MB, loaded only for Parquet
        from pyarrow import parquet
    except ImportError as error:
        next_step = f"Run {install_command('parquet')}, or export the log as .jsonl"
        raise UsageError(f"cannot read {path}", "pyarrow is not installed", next_step) from error
    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"cannot read {path}", str(error).splitlines()[0]) from error
