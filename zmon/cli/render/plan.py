"""Plan and reality at the terminal: rank by rank, those that are furthest from their plan first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.detectors.parts.wording import tables
from zmon.format import UNKNOWN, duration
from zmon.schema.api import Amounts, PlanRow, PlanTable

NO_PLAN = "its trainer told no plan: zmon.plan() tells one"
_RANKS = 16  # shown


@dataclass(frozen=True)
class _Kind:
    """One kind of amount: its field, its column, and how it is said."""

    name: str
    head: str
    say: Callable[[float], str]
    work: bool = True  # what tables are asked for; time and memory go into other things as well


def plan_table(answer: PlanTable) -> RenderableType:
    """Two lines a rank, planned above measured, and by how much its work is off; the totals below."""
    if answer.totals is None:
        return Text(NO_PLAN)
    worst = sorted(answer.ranks, key=lambda row: (-_apart(_off(row)), row.rank))
    table = Table(title="a step of each rank", title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    for head in ("rank", "", *(kind.head for kind in _KINDS), "off by"):
        table.add_column(head, no_wrap=True)
    table.add_column("tables", overflow="fold")
    for row in worst[:_RANKS]:
        amounts = (f"{_said(row.planned, kind)}\n{_said(row.measured, kind)}" for kind in _KINDS)
        off = _off(row)
        held = tables(row.tables, row.num_tables or 0) if row.tables else UNKNOWN
        times = UNKNOWN if off is None else f"{off:.2f} ×"
        table.add_row(Text(f"{row.rank}\n{row.host}"), "planned\nmeasured", *amounts, times, Text(held))
    more = f"and {len(worst) - _RANKS} more ranks: --json" if len(worst) > _RANKS else ""
    totals = "  ".join(f"{name} {value:,.6g}" for name, value in answer.totals.items())
    return Group(table, *(Text(line) for line in (more, totals and f"planned in all: {totals}") if line))


def _off(row: PlanRow) -> float | None:
    """How many times what was planned the rank's work is: that which is furthest off."""
    ratios = [ratio for kind in _KINDS if kind.work and (ratio := _ratio(row, kind))]
    return max(ratios, key=_apart, default=None)


def _ratio(row: PlanRow, kind: _Kind) -> float | None:
    planned, measured = _amount(row.planned, kind), _amount(row.measured, kind)
    return measured / planned if planned and measured else None


def _apart(ratio: float | None) -> float:
    """Half as much is as far off as twice as much."""
    return max(ratio, 1 / ratio) if ratio else 0.0


def _amount(amounts: Amounts | None, kind: _Kind) -> float | None:
    value: float | None = getattr(amounts, kind.name, None)
    return value


def _said(amounts: Amounts | None, kind: _Kind) -> str:
    value = _amount(amounts, kind)
    return UNKNOWN if value is None else kind.say(value)


def _size(num_bytes: float) -> str:
    """1234 → 1.23 kB, 5e9 → 5 GB."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if num_bytes >= 0.9995 * unit:
            return f"{num_bytes / unit:,.3g} {name}"
    return f"{num_bytes:.0f} B"


_KINDS = (
    _Kind("lookups", "lookups", lambda lookups: f"{lookups:,.0f}"),
    _Kind("sent_bytes", "sent", _size),
    _Kind("received_bytes", "received", _size),
    _Kind("seconds", "own time", duration, work=False),
    _Kind("memory_bytes", "memory", _size, work=False),
)
