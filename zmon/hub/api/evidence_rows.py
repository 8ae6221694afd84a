"""The rows of ranks in the evidence of a finding: a few of them, for a page that is refreshed every two seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.finding import Finding
from zmon.schema.gathered import FlightRow
from zmon.schema.rank import RankStatus


def with_few_rows(finding: Finding, limit: int) -> Finding:
    """Return a finding whose evidence has at most `limit` rows of ranks, the culprits first, and how many it lacks."""
    rows = finding.evidence.ranks
    if rows is UNSET or len(rows) <= limit:
        return finding
    culprits = set(finding.ranks)
    first = sorted(rows, key=lambda row: row.rank not in culprits)[:limit]
    evidence = msgspec.structs.replace(
        finding.evidence,
        ranks=tuple(first),
        num_ranks_left_out=len(rows) - len(first) + (finding.evidence.num_ranks_left_out or 0),
        in_flight=_few_in_flight(finding, first),
    )
    return replace(finding, evidence=evidence)


def _few_in_flight(finding: Finding, rows: Sequence[RankStatus]) -> Mapping[str, FlightRow] | UnsetType:
    """Return the collectives in flight of these ranks."""
    in_flight = finding.evidence.in_flight
    if in_flight is UNSET:
        return UNSET
    names = {str(row.rank) for row in rows}
    return {rank: row for rank, row in in_flight.items() if rank in names}
