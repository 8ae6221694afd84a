"""What was measured of exchanges, in a JSON file."""

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
    """Whole, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(msgspec.json.encode(_File(1, now, measured)))
    partial.replace(path)


def read(path: Path) -> Measured:
    """Raises UsageError: it is none."""
    try:
        measured = msgspec.json.decode(path.read_bytes(), type=_File).measured
        if not all(t.ranks > 1 and t.num_bytes >= 0 and t.seconds > 0 for t in measured.timed):
            raise ValueError("a time in it is none")
        return measured
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot use {path}", str(why), "zmon bench-comm --out writes one") from error
