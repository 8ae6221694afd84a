"""The JSON file with the result of `zmon bench-comm`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from zmon.errors import UsageError
from zmon.offline.comm_bench.curve import Measured


class _File(msgspec.Struct):
    schema: int
    recorded: float  # unix seconds
    measured: Measured


def write(path: Path, measured: Measured, now: float) -> None:
    """Write the file, completely or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(msgspec.json.encode(_File(1, now, measured)))
    partial.replace(path)


def read(path: Path) -> Measured:
    """Read the file. Raises UsageError if `zmon bench-comm` has not written it."""
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=_File).measured
        if not all(t.ranks > 1 and t.num_bytes >= 0 and t.seconds > 0 for t in measured.timed):
            raise ValueError("it has a duration or size that is not valid")
        return measured
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot use {path}", str(why), "Write one with zmon bench-comm --out") from error
