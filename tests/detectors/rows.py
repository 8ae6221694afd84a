"""Rows of the tables that are tests and pages: what happens to a job, and the finding that is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.detectors.stalls import detect
from zmon.schema.rank import RankState

Due = tuple[str | None, str | None, tuple[int, ...]]  # cause, severity, culprits
QUIET: Due = (None, None, ())


def due(cause: str, *ranks: int, severity: str = "critical") -> Due:
    """Return the finding that is due; without ranks it names nobody."""
    return cause, severity, ranks


class Row(NamedTuple):
    """One row: what happens, and the ranks that it leaves behind; `changes` has what else is in the snapshot."""

    name: str
    due: Due
    ranks: Sequence[RankState]
    note: str = ""
    changes: Mapping[str, Any] = MappingProxyType({})

    def judged(self) -> Due:
        """Return the finding of the stall detector."""
        finding = detect(*self.ranks, **self.changes)
        return (finding.cause, finding.severity, finding.ranks) if finding else QUIET


def page_rows(rows: Iterable[Row]) -> str:
    """Return the rows as a table of a page."""
    head = "| what happens | cause | severity | culprit | note |\n|---|---|---|---|---|\n"
    return head + "".join(f"| {row.name} | {_cells(row.due)} | {row.note} |\n" for row in rows)


def _cells(due_: Due) -> str:
    cause, severity, ranks = due_
    culprits = ", ".join(f"rank {rank}" for rank in ranks) or "–"
    return f"`{cause}` | {severity} | {culprits}" if cause else "quiet | – | –"
