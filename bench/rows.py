"""The results of a benchmark: numbers with a unit and, if known, their 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

US_PER_SECOND, MIB_PER_BYTE, PERCENT = 1e6, 2**-20, 100.0  # PERCENT: of a ratio
T_QUANTILES = {  # the 97.5 % quantile of Student's t with n - 1 degrees of freedom, by number of values n
    2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    name: str
    value: float
    unit: str
    low: float | None = None  # the 95 % interval
    high: float | None = None


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the rows as text."""
    for row in rows:
        interval = "" if row.low is None else f"   95 %: {row.low:.2f} … {row.high:.2f}"
        yield f"  {row.name:<64}{row.value:>9.2f} {row.unit:<4}{interval}".rstrip()


def table_line(cells: Iterable[str], heads: Iterable[str]) -> str:
    """Return one line of a table with these heads, right-aligned."""
    return "".join(f"{cell:>{max(len(head), 10) + 2}}" for cell, head in zip(cells, heads, strict=True))


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of 2 to 12 values, and half the width of its 95 % confidence interval."""
    half_width = T_QUANTILES[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), half_width
