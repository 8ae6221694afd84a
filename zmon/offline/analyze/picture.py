"""Ranks × steps as a heat map: how much longer a rank's own time is than the median rank's, by stretches of steps.

Pure. In a synchronous job the slow rank is the dark row; those that wait for it are light.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.offline.analyze.rows import StepTable

SHADES = " ░▒▓█"  # told apart without colour
_BOUNDS = (1.1, 1.25, 1.5, 2.0)  # × the median rank's own time


@dataclass(frozen=True)
class HeatMap:
    """A row a rank; None: no rank's record of that stretch."""

    ranks: tuple[int, ...]
    first_steps: tuple[int, ...]  # of each column
    cells: tuple[tuple[float | None, ...], ...]  # × the median rank's own time


def heat_map(log: StepTable, attempt: int, columns: int, rows: int) -> HeatMap:
    """At most so many columns, and the ranks that stand out most where there are more than `rows`."""
    ranks = sorted(rank for number, rank in log.records if number == attempt)
    steps = sorted({step for rank in ranks for step in log.records[attempt, rank]})
    width = -(-len(steps) // columns)
    stretches = [steps[begin : begin + width] for begin in range(0, len(steps), width)]
    own = {rank: [_own(log, attempt, rank, stretch) for stretch in stretches] for rank in ranks}
    middle = [_median([own[rank][at] for rank in ranks]) for at in range(len(stretches))]
    cells = {rank: tuple(_ratio(own[rank][at], middle[at]) for at in range(len(stretches))) for rank in ranks}
    worst = sorted(ranks, key=lambda rank: -max((cell for cell in cells[rank] if cell is not None), default=0.0))
    shown = tuple(sorted(worst[:rows]))
    return HeatMap(shown, tuple(stretch[0] for stretch in stretches), tuple(cells[rank] for rank in shown))


def shade(cell: float | None) -> str:
    """One character; a point where nothing is known."""
    return "·" if cell is None else SHADES[sum(cell >= bound for bound in _BOUNDS)]


def _own(log: StepTable, attempt: int, rank: int, stretch: Sequence[int]) -> float | None:
    there = log.records[attempt, rank]
    return _median([there[step].measures.self_seconds for step in stretch if step in there])


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _ratio(own: float | None, middle: float | None) -> float | None:
    return own / middle if own is not None and middle else None
