"""The page of all ways in which a job can stand still, from the rows that tests judge."""

from __future__ import annotations

from collections.abc import Iterable

from tests.detectors.hangs.table import SECTIONS as HANGS
from tests.detectors.network.table import SECTIONS as NETWORK
from tests.detectors.stalls import Row
from zmon.detectors.hangs.limits import HangLimits

SECTIONS = {**HANGS, **NETWORK}
HEAD = """\
# How a job can stand still

Generated from `tests/detectors/hangs/table.py` and `tests/detectors/network/table.py` by `make generate`. Each row is
a test.

| what proves the hang | severity |
|---|---|
| a lock, a process state, a link, or the order of collectives | critical at once |
| only silence, which may be a pause | a warning first; critical after {critical:g} s |
| only silence, and for {proof:g} s nothing changes in the awaited ranks, waiting locally or for a server | critical |
| only silence, and the awaited ranks move data | a warning for up to {moving:g} minutes |

If the ranks prove nothing about each other, the cause is `unknown`, and the finding has all evidence.
[endings.md](endings.md) has the jobs whose ranks ended.

In the rows, a job has four ranks. Ranks that a row does not mention wait in one collective. They finished their last
step 5 s ago, and their lease is 1.5 s, unless the row has other times. Jobs of one rank have a section of their own. A
note in “…” quotes the finding.
"""
TABLE = """
## {title}

| what happens | cause | severity | culprit | note |
|---|---|---|---|---|
"""


def hangs_page() -> str:
    """Return the page."""
    limits = HangLimits()
    head = HEAD.format(
        critical=limits.critical_seconds, proof=limits.proof_seconds, moving=limits.moving_at_most_seconds / 60
    )
    return head + "".join(table(title, rows) for title, rows in SECTIONS.items())


def table(title: str, rows: Iterable[Row]) -> str:
    """Return the section of these rows."""
    lines = (f"| {row.scene} | {' | '.join(_cells(row.due))} | {_note(row)} |\n" for row in rows)
    return TABLE.format(title=title) + "".join(lines)


def _cells(due: str) -> list[str]:
    """Return the cells of cause, severity and culprit."""
    cause, *severity_and_culprit = due.split(", ", 2)
    return [f"`{cause}`", *severity_and_culprit] if severity_and_culprit else ["quiet", "–", "–"]


def _note(row: Row) -> str:
    """Return the reason, and the words of the summary that the test expects."""
    return "; ".join(filter(None, (row.note, row.says and f"“{row.says}”")))
