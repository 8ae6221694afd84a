"""The command line of a benchmark, and its output: numbers with a unit, tables, and the load of the machine."""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

US_PER_SECOND = 1e6
MIB_PER_BYTE = 2**-20
PERCENT = 100.0  # of a ratio
NORMAL_QUANTILE = 1.96  # the 97.5 % quantile of the normal distribution
T_QUANTILES = {  # the 97.5 % quantile of Student's t with n - 1 degrees of freedom, by number of values n
    2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A number of a benchmark."""

    name: str
    value: float
    unit: str


def parser_of(documentation: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's command line. The help is the documentation of its module."""
    return argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the rows as text."""
    for row in rows:
        yield f"  {row.name:<64}{row.value:>9.2f} {row.unit}"


def table_line(cells: Iterable[str], heads: Iterable[str]) -> str:
    """Return one line of a table with these heads, right-aligned."""
    return "".join(f"{cell:>{max(len(head), 10) + 2}}" for cell, head in zip(cells, heads, strict=True))


def load_line() -> str:
    """Return the last line of a benchmark: other load of the machine makes times longer."""
    return f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)"


def mean_and_half_width(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of 2 to 12 values, and half the width of its 95 % confidence interval."""
    half_width = T_QUANTILES[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), half_width
