"""The results of a benchmark: numbers with a unit and, if known, their 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MICRO, MEBI, PERCENT = 1e6, 2**-20, 100.0
STUDENT = {  # 97.5 % of t, by number of values
    2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    what: str  # the name of the number
    value: float
    unit: str
    low: float | None = None  # the 95 % interval
    high: float | None = None


def lines(rows: Iterable[Row]) -> Iterable[str]:
    """Yield the rows as text."""
    for row in rows:
        interval = "" if row.low is None else f"   95 %: {row.low:.2f} … {row.high:.2f}"
        yield f"  {row.what:<64}{row.value:>9.2f} {row.unit:<4}{interval}".rstrip()


def table_line(cells: Iterable[str], heads: Iterable[str]) -> str:
    """Return one line of a table with these heads, right-aligned."""
    return "".join(f"{cell:>{max(len(head), 10) + 2}}" for cell, head in zip(cells, heads, strict=True))


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half of Student's 95 % interval of the mean."""
    half = STUDENT[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), half
