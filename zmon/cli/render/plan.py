"""The table of `zmon status --job`: plan and measurement of each rank, the largest deviation first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from zmon.detectors.wording import tables
from zmon.format import UNKNOWN, duration, size
from zmon.schema.api import Amounts, PlanRow, PlanTable

NO_PLAN = "no plan: the trainer has not called zmon.plan()"
_MAX_RANKS = 16  # ranks shown


@dataclass(frozen=True)
class _Kind:
    """A kind of amount that is planned and measured."""

    name: str  # field of Amounts
    column: str
    to_text: Callable[[float], str]
    is_work: bool = True  # it depends on the tables alone; time and memory depend on more


_KINDS = (
    _Kind("lookups", "lookups", lambda lookups: f"{lookups:,.0f}"),
    _Kind("sent_bytes", "sent", size),
    _Kind("received_bytes", "received", size),
    _Kind("seconds", "self time", duration, is_work=False),
    _Kind("memory_bytes", "memory", size, is_work=False),
)


def plan_table(answer: PlanTable) -> RenderableType:
    """Return two lines per rank, planned above measured, with the deviation of its work, and the totals below."""
    if answer.totals is None:
        return Text(NO_PLAN)
    worst = sorted(answer.ranks, key=lambda row: (-_deviation(_worst_ratio(row)), row.rank))
    heads = ("rank", "", *(kind.column for kind in _KINDS), "off by")
    columns = (*(Column(head, no_wrap=True) for head in heads), Column("tables", overflow="fold"))
    title = "plan and measurement per step and rank"
    table = Table(*columns, title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0))
    for row in worst[:_MAX_RANKS]:
        amounts = (f"{_cell(row.planned, kind)}\n{_cell(row.measured, kind)}" for kind in _KINDS)
        ratio = _worst_ratio(row)
        names = tables(row.tables, row.num_tables or 0) if row.tables else UNKNOWN
        off_by = UNKNOWN if ratio is None else f"{ratio:.2f} ×"
        table.add_row(Text(f"{row.rank}\n{row.host}"), "planned\nmeasured", *amounts, off_by, Text(names))
    left_out = f"and {len(worst) - _MAX_RANKS} more ranks; --json shows all" if len(worst) > _MAX_RANKS else ""
    totals = "  ".join(  # `g` would write a million with an exponent
        f"{name} {value:,.6g}" if value < 999_999.5 else f"{name} {value:,.0f}" for name, value in answer.totals.items()
    )
    return Group(table, *(Text(line) for line in (left_out, totals and f"planned totals: {totals}") if line))


def _worst_ratio(row: PlanRow) -> float | None:
    """Return measured ÷ planned for the kind of work that deviates most."""
    ratios = [ratio for kind in _KINDS if kind.is_work and (ratio := _ratio(row, kind))]
    return max(ratios, key=_deviation, default=None)


def _ratio(row: PlanRow, kind: _Kind) -> float | None:
    planned, measured = _amount(row.planned, kind), _amount(row.measured, kind)
    return measured / planned if planned and measured else None


def _deviation(ratio: float | None) -> float:
    """Return the deviation of a ratio from 1 as a factor: 2 for both 2 and 0.5."""
    return max(ratio, 1 / ratio) if ratio else 0.0


def _amount(amounts: Amounts | None, kind: _Kind) -> float | None:
    value: float | None = getattr(amounts, kind.name, None)
    return value


def _cell(amounts: Amounts | None, kind: _Kind) -> str:
    value = _amount(amounts, kind)
    return UNKNOWN if value is None else kind.to_text(value)
