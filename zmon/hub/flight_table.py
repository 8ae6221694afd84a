"""The flight table in the evidence of a stall: what the ranks of the job have in flight. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from zmon.schema.api import RankEvidence
from zmon.schema.gathered import FlightRow, PendingRow
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.row import row_of
from zmon.schema.unknown import Unknown

_MAX_PENDING = 4  # collectives in flight that a row shows


def flight_table(snapshot: Snapshot, answers: Mapping[int, RankEvidence | Unknown]) -> dict[str, FlightRow]:
    """Return a row for each rank that was asked, with its collectives in flight, and for each that nobody could ask."""
    rows = {r.rank: FlightRow(error="its process is gone") for r in snapshot.ranks if not r.alive}
    rows |= {r.rank: FlightRow(error="its agent is silent") for r in snapshot.unwatched}
    rows |= {rank: FlightRow(error="no agent has reported it") for rank in snapshot.missing}
    rows |= {rank: _row(answer) for rank, answer in answers.items()}
    return {str(rank): row for rank, row in sorted(rows.items())}


def _row(answer: RankEvidence | Unknown) -> FlightRow:
    if isinstance(answer, Unknown):
        return FlightRow(error=answer.reason)
    flight = answer.flight
    if flight is None:
        return FlightRow(error=answer.flight_error or "its agent is older and has no flight records")
    pending = tuple(row_of(PendingRow, operation) for operation in flight.pending[:_MAX_PENDING])
    return FlightRow(pending, flight.num_pending, flight.last, error=answer.flight_error or UNSET)
