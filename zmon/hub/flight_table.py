"""What every rank of a stalled job has in flight, as a table in the finding's evidence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from zmon.schema.api import RankEvidence
from zmon.schema.snapshot import Snapshot
from zmon.schema.unknown import Unknown

_ROW_PENDING = 4  # collectives in flight that a row shows
_COLUMNS = ("group", "sequence", "op", "num_bytes", "sizes", "dtypes", "age_seconds", "state")


def flight_table(snapshot: Snapshot, answers: Mapping[int, RankEvidence | Unknown]) -> dict[str, dict[str, Any]]:
    """A row for each rank of the job: what it hangs in and what it did last, or why that is not known."""
    rows: dict[int, dict[str, Any]] = {r.rank: {"error": "its process is gone"} for r in snapshot.ranks}
    rows |= {r.rank: {"error": "its agent is silent"} for r in snapshot.unwatched}
    rows |= {rank: {"error": "no agent has seen it"} for rank in snapshot.missing}
    rows |= {rank: _row(answer) for rank, answer in answers.items()}
    return {str(rank): row for rank, row in sorted(rows.items())}


def _row(answer: RankEvidence | Unknown) -> dict[str, Any]:
    if isinstance(answer, Unknown):
        return {"error": answer.reason}
    flight = answer.flight
    if flight is None:
        return {"error": answer.flight_error or "its agent is older and does not tell"}
    pending = [{name: getattr(operation, name) for name in _COLUMNS} for operation in flight.pending[:_ROW_PENDING]]
    row = {"pending": msgspec.to_builtins(pending), "num_pending": flight.num_pending, "last": flight.last}
    return {**row, "error": answer.flight_error} if answer.flight_error else row
