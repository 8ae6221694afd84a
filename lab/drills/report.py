"""Format the rows of drills as lines, tables, Markdown or plain data for JSON. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.drills.drill import Drill
from lab.drills.figures import Spread, confusion, finding_spread, results, shortfalls, spread
from lab.drills.score import DrillRow
from lab.drills.targets import TARGETS
from zmon.schema.names import SCHEMA

STYLES = {"right": "green", "quiet": "green", "skipped": "dim"}  # all others are bold red
# Labels of the durations. They are also keys in the output of --json, so they do not change.
PROOFS = {
    "state": "a state proves it",
    "silence": "silence proves it",
    "steps": "steps prove it",
    "lease": "a lease proves it",
    "watcher": "an alert about the watchers",
}


def drill_list(drills: Sequence[Drill]) -> Table:
    """Return a table of all drills, with the reason for each that cannot be played on this machine."""
    table = Table(box=None, pad_edge=False)
    table.add_column("drill", no_wrap=True)
    for column in ("fault", "expected culprit and cause", "stage", "cannot be played because"):
        table.add_column(column)
    for drill in drills:
        expected = "no finding" if drill.quiet else f"{drill.culprit}: {' or '.join(drill.causes)}"
        table.add_row(drill.name, drill.injects, expected, drill.stage, drill.unavailable() or "")
    return table


def line(row: DrillRow) -> str:
    """Return one row as a line of text."""
    job = f"{row.kind}, {row.ranks} ranks, {row.step_seconds * 1000:g} ms"
    has_diagnosis = not row.quiet and row.reported_cause is not None
    diagnosis = f": {_diagnosis(row)}, {_seconds(row.finding_seconds)}" if has_diagnosis else ""
    remarks = f" ({'; '.join(row.remarks)})" if row.remarks else ""
    return f"{row.drill} [{job}] {row.result}{diagnosis}{remarks}"


def tables(rows: Sequence[DrillRow]) -> RenderableType:
    """Return tables of the rows, of the figures over all rows, and of true and reported causes."""
    missed_targets = [Text(text, style="bold red") for text in shortfalls(rows)]
    return Group(_rows(rows), *_figures(rows), *_confusion(rows), *missed_targets, Text(_results(rows), style="bold"))


def markdown(rows: Sequence[DrillRow]) -> str:
    """Return Markdown tables: a line for each drill over all its repeats, then the figures."""
    lines = [
        "| drill | played | as expected | onset → finding | target | onset → critical | target | → page | → resolved "
        "| deviations |",
        "|" + "-|" * 10,
    ]
    for name in dict.fromkeys(row.drill for row in rows):
        plays = [row for row in rows if row.drill == name]
        limits = [row.target_seconds for row in plays if row.target_seconds is not None]
        critical_limits = [row.critical_target_seconds for row in plays if row.critical_target_seconds is not None]
        deviations = Counter(_deviation(row) for row in plays if not row.as_expected)
        cells = (
            name,
            sum(not row.skipped for row in plays),
            sum(row.as_expected for row in plays),
            _range([row.finding_seconds for row in plays]),
            _limit(max(limits, default=None)),
            _range([row.critical_seconds for row in plays]),
            _limit(max(critical_limits, default=None)),
            _range([row.page_seconds for row in plays]),
            _range([row.resolved_seconds for row in plays]),
            "; ".join(f"{count} × {deviation}" for deviation, count in deviations.items()),
        )
        lines.append(_cells(*cells))
    lines += ["", "| seconds | p50 | p95 | max | drills |", "|" + "-|" * 5]
    for label, figure in _spreads(rows):
        if figure is not None:
            lines.append(_cells(label, f"{figure.p50:.2f}", f"{figure.p95:.2f}", f"{figure.max:.2f}", figure.count))
    return "\n".join([*lines, "", *shortfalls(rows), _results(rows)])


def as_json(rows: Sequence[DrillRow], **more: Any) -> dict[str, Any]:
    """Return the rows and their figures as plain data for JSON; `more` is added at the top level."""
    return {
        "schema": SCHEMA,
        **more,
        "verdicts": dict(results(rows)),
        "figures": {label: dataclasses.asdict(figure) for label, figure in _spreads(rows) if figure},
        "shortfalls": shortfalls(rows),
        "confusion": [
            {"cause": cause, "told": reported, "count": count}
            for (cause, reported), count in sorted(confusion(rows).items())
        ],
        "rows": [
            msgspec.to_builtins(row) | {"verdict": row.result, "remarks": row.remarks, "as_expected": row.as_expected}
            for row in rows
        ],
    }


def _rows(rows: Sequence[DrillRow]) -> Table:
    table = Table(title="Drills (seconds)", title_justify="left", box=SIMPLE, pad_edge=False)
    for column in ("drill", "verdict", "finding\ncritical", "page", "resolved"):
        table.add_column(column, no_wrap=True)  # complete in a narrow terminal too
    table.add_column("diagnosis, remarks", overflow="fold")
    for row in rows:
        table.add_row(
            f"{row.drill}\n{row.kind} {row.ranks} × {row.step_seconds * 1000:g} ms",
            Text(row.result, style=STYLES.get(row.result, "bold red")),
            f"{_figure(row.finding_seconds)} {_limit(row.target_seconds)}\n"
            f"{_figure(row.critical_seconds)} {_limit(row.critical_target_seconds)}".strip(),
            _figure(row.page_seconds),
            _figure(row.resolved_seconds),
            "\n".join(filter(None, [_diagnosis(row), *row.remarks])),
        )
    return table


def _figures(rows: Sequence[DrillRow]) -> list[RenderableType]:
    table = Table("seconds", "p50", "p95", "max", "drills", title="Durations", title_justify="left")
    for label, figure in _spreads(rows):
        if figure is not None:
            table.add_row(label, f"{figure.p50:.2f}", f"{figure.p95:.2f}", f"{figure.max:.2f}", str(figure.count))
    table.caption = (
        f"targets: state p50 ≤ {TARGETS.state_p50_seconds:g}, p95 ≤ {TARGETS.state_seconds:g}; "
        f"page ≤ {TARGETS.page_seconds:g}; resolved ≤ {TARGETS.resolve_seconds:g}; others: see each row"
    )
    return [table] if table.row_count else []


def _spreads(rows: Sequence[DrillRow]) -> list[tuple[str, Spread | None]]:
    return [
        *((f"onset → finding, {words}", finding_spread(rows, proof)) for proof, words in PROOFS.items()),
        ("onset → critical, silence or a lease", spread([row.critical_seconds for row in rows])),
        ("finding → page", spread([row.page_seconds for row in rows])),
        ("lifted → resolved", spread([row.resolved_seconds for row in rows])),
    ]


def _confusion(rows: Sequence[DrillRow]) -> list[RenderableType]:
    counts = confusion(rows)
    if not counts:
        return []
    reported = sorted({reported for _, reported in counts})
    table = Table("cause \\ reported", *reported, title="True and reported causes", title_justify="left")
    for cause in sorted({cause for cause, _ in counts}):
        table.add_row(cause, *(str(counts[cause, other] or "") for other in reported))
    return [table]


def _results(rows: Sequence[DrillRow]) -> str:
    return ", ".join(f"{count} {result}" for result, count in results(rows).most_common()) or "nothing was played"


def _diagnosis(row: DrillRow) -> str:
    """Return the reported cause and culprit."""
    ranks = (f"rank {rank}" for rank in row.reported_ranks)
    hosts = (f"on {host}" for host in row.reported_hosts)
    return " ".join([row.reported_cause or "", *ranks, *hosts]).strip()


def _deviation(row: DrillRow) -> str:
    """Return a description of everything in a row that is not as expected."""
    deviations = [] if row.result in ("right", "quiet") else [f"{row.result} {_diagnosis(row)}".strip()]
    return ", ".join([*deviations, *row.remarks])


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f"≤ {seconds:.1f}"


def _range(values: Sequence[float | None]) -> str:
    """Return the median and the maximum as text."""
    figure = spread(values)
    return "" if figure is None else f"{figure.p50:.2f} s" + (f", at most {figure.max:.2f}" if figure.count > 1 else "")


def _cells(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
