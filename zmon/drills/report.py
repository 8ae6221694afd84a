"""What a person reads of drills, and what a program does. Pure: rows in, tables or plain data out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.drills.drill import Drill
from zmon.drills.score import Row, confusion, spread, verdicts
from zmon.drills.targets import TARGETS
from zmon.records import SCHEMA

STYLES = {"right": "green", "quiet": "green", "skipped": "dim"}  # all else is bold red
FIGURES = (
    ("onset → finding, a state proves it", "finding_seconds", "state"),
    ("onset → finding, silence proves it", "finding_seconds", "silence"),
    ("onset → finding, steps prove it", "finding_seconds", "steps"),
    ("onset → finding, a lease proves it", "finding_seconds", "lease"),
    ("finding → page", "page_seconds", None),
    ("lifted → resolved", "resolved_seconds", None),
)


def drill_list(drills: Sequence[Drill]) -> Table:
    """What can be played, and why not."""
    table = Table(box=None, pad_edge=False)
    table.add_column("drill", no_wrap=True)
    for column in ("what is done", "who has to be blamed, for what", "stage", "cannot be played"):
        table.add_column(column)
    for drill in drills:
        blame = "nobody" if drill.quiet else f"{drill.culprit}: {' or '.join(drill.causes)}"
        table.add_row(drill.name, drill.injects, blame, drill.stage, drill.unavailable() or "")
    return table


def line(row: Row) -> str:
    """One row, as it comes."""
    job = f"{row.kind}, {row.ranks} ranks, {row.step_seconds * 1000:g} ms"
    told = "" if row.quiet or row.told is None else f": {_told(row)}, {_seconds(row.finding_seconds)}"
    remarks = f" ({'; '.join(row.remarks)})" if row.remarks else ""
    return f"{row.drill} [{job}] {row.verdict}{told}{remarks}"


def tables(rows: Sequence[Row]) -> RenderableType:
    """Each drill, then the figures over all of them, then who was taken for what."""
    return Group(_each(rows), _figures(rows), *_confusion(rows), Text(_verdicts(rows), style="bold"))


def as_json(rows: Sequence[Row], **more: Any) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": SCHEMA,
        **more,
        "verdicts": dict(verdicts(rows)),
        "figures": {label: dataclasses.asdict(found) for label, found in _spreads(rows) if found},
        "confusion": [{"cause": a, "told": b, "count": n} for (a, b), n in sorted(confusion(rows).items())],
        "rows": [
            dataclasses.asdict(row) | {"verdict": row.verdict, "remarks": row.remarks, "as_expected": row.as_expected}
            for row in rows
        ],
    }


def _each(rows: Sequence[Row]) -> Table:
    table = Table(title="Drills", title_justify="left")
    for column in ("drill", "job", "struck", "verdict", "told", "finding", "page", "pages", "resolved", "remarks"):
        table.add_column(column, overflow="fold")
    for row in rows:
        limit = "" if row.target_seconds is None else f" ≤ {row.target_seconds:.1f}"
        table.add_row(
            row.drill,
            f"{row.kind} {row.ranks} × {row.step_seconds * 1000:g} ms",
            "" if row.quiet or row.rank is None else f"rank {row.rank}",
            Text(row.verdict, style=STYLES.get(row.verdict, "bold red")),
            _told(row),
            "" if row.quiet else _seconds(row.finding_seconds) + limit,
            "" if row.quiet else _seconds(row.page_seconds),
            str(len(row.paged)),
            _seconds(row.resolved_seconds) if row.lifted else "",
            "; ".join(row.remarks),
        )
    return table


def _figures(rows: Sequence[Row]) -> Table:
    table = Table("seconds", "p50", "p95", "max", "drills", title="How fast", title_justify="left")
    for label, found in _spreads(rows):
        if found is not None:
            table.add_row(label, f"{found.p50:.2f}", f"{found.p95:.2f}", f"{found.max:.2f}", str(found.count))
    table.caption = (
        f"wanted: state p50 ≤ {TARGETS.state_p50_seconds:g}, p95 ≤ {TARGETS.state_seconds:g}; "
        f"page ≤ {TARGETS.page_seconds:g}; resolved ≤ {TARGETS.resolve_seconds:g}; the others as each row says"
    )
    return table


def _spreads(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    return [
        (label, spread([getattr(row, figure) for row in rows if proof in (None, row.proof)]))
        for label, figure, proof in FIGURES
    ]


def _confusion(rows: Sequence[Row]) -> list[RenderableType]:
    counts = confusion(rows)
    if not counts:
        return []
    told = sorted({told for _, told in counts})
    table = Table("cause \\ told", *told, title="Who was taken for what", title_justify="left")
    for cause in sorted({cause for cause, _ in counts}):
        table.add_row(cause, *(str(counts[cause, other] or "") for other in told))
    return [table]


def _verdicts(rows: Sequence[Row]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts(rows).most_common()) or "nothing was played"


def _told(row: Row) -> str:
    """Cause and culprit."""
    ranks, hosts = (f"rank {rank}" for rank in row.told_ranks), (f"on {host}" for host in row.told_hosts)
    return " ".join([row.told or "", *ranks, *hosts]).strip()


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
