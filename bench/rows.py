"""What a benchmark found: one number with its unit, and the interval it lies in where that is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MICRO, MEBI, PERCENT = 1e6, 2**-20, 100.0


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    value: float
    unit: str
    low: float | None = None  # the 95 % interval
    high: float | None = None


def lines(rows: Iterable[Row]) -> Iterable[str]:
    """The rows as people read them."""
    for row in rows:
        between = "" if row.low is None else f"   95 %: {row.low:.2f} … {row.high:.2f}"
        yield f"  {row.what:<64}{row.value:>9.2f} {row.unit:<4}{between}".rstrip()


def table_line(cells: Iterable[str], heads: Iterable[str]) -> str:
    """One line of a table with these heads, to the right."""
    return "".join(f"{cell:>{max(len(head), 10) + 2}}" for cell, head in zip(cells, heads, strict=True))
