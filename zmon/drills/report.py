"""What a person reads of drills, and what a program does. Pure: rows in, tables or plain data out."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.drills.drill import Drill
from zmon.drills.score import DrillRow, Spread, confusion, finding_spread, shortfalls, spread, verdicts
from zmon.drills.targets import TARGETS
from zmon.schema.names import SCHEMA

STYLES = {"right": "green", "quiet": "green", "skipped": "dim"}  # all else is bold red
PROOFS = {
    "state": "a state proves it",
    "silence": "silence proves it",
    "steps": "steps prove it",
    "lease": "a lease proves it",
    "watcher": "an alert about the watchers",
}


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


def line(row: DrillRow) -> str:
    """One row, as it comes."""
    job = f"{row.kind}, {row.ranks} ranks, {row.step_seconds * 1000:g} ms"
    told = "" if row.quiet or row.told is None else f": {_told(row)}, {_seconds(row.finding_seconds)}"
    remarks = f" ({'; '.join(row.remarks)})" if row.remarks else ""
    return f"{row.drill} [{job}] {row.verdict}{told}{remarks}"


def tables(rows: Sequence[DrillRow]) -> RenderableType:
    """Each drill, then the figures over all of them, then who was taken for what."""
    short = [Text(each, style="bold red") for each in shortfalls(rows)]
    return Group(_each(rows), *_figures(rows), *_confusion(rows), *short, Text(_verdicts(rows), style="bold"))


def markdown(rows: Sequence[DrillRow]) -> str:
    """A line for each drill over all its repeats, then the figures, for a document."""
    lines = [
        "| drill | played | as expected | onset → finding | wanted | → page | → resolved | otherwise |",
        "|" + "-|" * 8,
    ]
    for name in dict.fromkeys(row.drill for row in rows):
        own = [row for row in rows if row.drill == name]
        limits = [row.target_seconds for row in own if row.target_seconds is not None]
        otherwise = Counter(_otherwise(row) for row in own if not row.as_expected)
        cells = (
            name,
            sum(not row.skipped for row in own),
            sum(row.as_expected for row in own),
            _range([row.finding_seconds for row in own]),
            _limit(max(limits, default=None)),
            _range([row.page_seconds for row in own]),
            _range([row.resolved_seconds for row in own]),
            "; ".join(f"{count} × {what}" for what, count in otherwise.items()),
        )
        lines.append(_cells(*cells))
    lines += ["", "| seconds | p50 | p95 | max | drills |", "|" + "-|" * 5]
    for label, found in _spreads(rows):
        if found is not None:
            lines.append(_cells(label, f"{found.p50:.2f}", f"{found.p95:.2f}", f"{found.max:.2f}", found.count))
    return "\n".join([*lines, "", *shortfalls(rows), _verdicts(rows)])


def as_json(rows: Sequence[DrillRow], **more: Any) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": SCHEMA,
        **more,
        "verdicts": dict(verdicts(rows)),
        "figures": {label: dataclasses.asdict(found) for label, found in _spreads(rows) if found},
        "shortfalls": shortfalls(rows),
        "confusion": [{"cause": a, "told": b, "count": n} for (a, b), n in sorted(confusion(rows).items())],
        "rows": [
            dataclasses.asdict(row) | {"verdict": row.verdict, "remarks": row.remarks, "as_expected": row.as_expected}
            for row in rows
        ],
    }


def _each(rows: Sequence[DrillRow]) -> Table:
    table = Table(title="Drills (seconds)", title_justify="left", box=SIMPLE, pad_edge=False)
    for column in ("drill", "verdict", "finding", "page", "resolved"):
        table.add_column(column, no_wrap=True)  # whole in a narrow terminal too
    table.add_column("told, remarks", overflow="fold")
    for row in rows:
        table.add_row(
            f"{row.drill}\n{row.kind} {row.ranks} × {row.step_seconds * 1000:g} ms",
            Text(row.verdict, style=STYLES.get(row.verdict, "bold red")),
            f"{_figure(row.finding_seconds)} {_limit(row.target_seconds)}".strip(),
            _figure(row.page_seconds),
            _figure(row.resolved_seconds),
            "\n".join(filter(None, [_told(row), *row.remarks])),
        )
    return table


def _figures(rows: Sequence[DrillRow]) -> list[RenderableType]:
    table = Table("seconds", "p50", "p95", "max", "drills", title="How fast", title_justify="left")
    for label, found in _spreads(rows):
        if found is not None:
            table.add_row(label, f"{found.p50:.2f}", f"{found.p95:.2f}", f"{found.max:.2f}", str(found.count))
    table.caption = (
        f"wanted: state p50 ≤ {TARGETS.state_p50_seconds:g}, p95 ≤ {TARGETS.state_seconds:g}; "
        f"page ≤ {TARGETS.page_seconds:g}; resolved ≤ {TARGETS.resolve_seconds:g}; the others as each row says"
    )
    return [table] if table.row_count else []


def _spreads(rows: Sequence[DrillRow]) -> list[tuple[str, Spread | None]]:
    return [
        *((f"onset → finding, {words}", finding_spread(rows, proof)) for proof, words in PROOFS.items()),
        ("finding → page", spread([row.page_seconds for row in rows])),
        ("lifted → resolved", spread([row.resolved_seconds for row in rows])),
    ]


def _confusion(rows: Sequence[DrillRow]) -> list[RenderableType]:
    counts = confusion(rows)
    if not counts:
        return []
    told = sorted({told for _, told in counts})
    table = Table("cause \\ told", *told, title="Who was taken for what", title_justify="left")
    for cause in sorted({cause for cause, _ in counts}):
        table.add_row(cause, *(str(counts[cause, other] or "") for other in told))
    return [table]


def _verdicts(rows: Sequence[DrillRow]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in verdicts(rows).most_common()) or "nothing was played"


def _told(row: DrillRow) -> str:
    """Cause and culprit."""
    ranks, hosts = (f"rank {rank}" for rank in row.told_ranks), (f"on {host}" for host in row.told_hosts)
    return " ".join([row.told or "", *ranks, *hosts]).strip()


def _otherwise(row: DrillRow) -> str:
    """What is not as expected of it."""
    said = [] if row.verdict in ("right", "quiet") else [f"{row.verdict} {_told(row)}".strip()]
    return ", ".join([*said, *row.remarks])


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f"≤ {seconds:.1f}"


def _range(values: Sequence[float | None]) -> str:
    """The median and the most of them."""
    found = spread(values)
    return "" if found is None else f"{found.p50:.2f} s" + (f", at most {found.max:.2f}" if found.count > 1 else "")


def _cells(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
