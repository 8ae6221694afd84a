"""The heat map of `zmon analyze`: the self time of each rank over the steps, relative to the median rank. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from zmon.offline.analyze.replay import Attempt
from zmon.offline.analyze.rows import StepTable
from zmon.schema.steps import STEP

SHADES = " ░▒▓█"  # readable without colours
_BOUNDS = (1.1, 1.25, 1.5, 2.0)  # multiples of the median rank's self time at which a darker shade begins
_MAX_RANKS = 32  # rows of the heat map
_MARGIN = 8  # width of the column with the number of the rank
_MIN_COLUMNS = 16  # columns in a narrow terminal


def heat_map_text(log: StepTable, attempt: Attempt, width: int) -> Text:
    """Return the heat map of an attempt, `width` columns wide, with its legend."""
    ratios = heat_map(log, attempt.number, max(width - _MARGIN - 1, _MIN_COLUMNS), _MAX_RANKS)
    legend = "  ".join(f"'{shade(bound)}' {bound:g} ×" for bound in _BOUNDS)
    text = Text(f"self time of each rank ÷ self time of the median rank: {legend} or more\n")
    if len(ratios.ranks) < attempt.ranks:
        text.append(f"(the {len(ratios.ranks)} slowest of {attempt.ranks} ranks)\n")
    for rank, cells in zip(ratios.ranks, ratios.cells, strict=True):
        text.append(f"{rank:>{_MARGIN - 1}} {''.join(map(shade, cells))}\n")
    first, last = (f"{log.number(step):,}" for step in (ratios.first_steps[0], ratios.first_steps[-1]))
    last_width = max(len(ratios.first_steps) - len(first), len(last) + 1)
    text.append(f"{'step':>{_MARGIN - 1}} {first}{last:>{last_width}}")
    return text


@dataclass(frozen=True)
class HeatMap:
    """A row per rank and a column per span of steps; a cell is None if the rank has no record in that span."""

    ranks: tuple[int, ...]
    first_steps: tuple[int, ...]  # first step of each column
    cells: tuple[tuple[float | None, ...], ...]  # multiples of the median rank's self time


def heat_map(log: StepTable, attempt: int, columns: int, rows: int) -> HeatMap:
    """Return a map of at most `columns` columns. If there are more than `rows` ranks, it has the slowest ones."""
    self_times = {
        rank: dict(zip(steps.column(STEP), steps.sums("phase"), strict=True))
        for rank, steps in log.ranks(attempt).items()
    }
    numbers = sorted({step for times in self_times.values() for step in times})
    span_steps = math.ceil(len(numbers) / columns)
    spans = [numbers[begin : begin + span_steps] for begin in range(0, len(numbers), span_steps)]
    by_rank = {
        rank: [_median([times[step] for step in span if step in times]) for span in spans]
        for rank, times in self_times.items()
    }
    medians = [_median([by_rank[rank][column] for rank in self_times]) for column in range(len(spans))]
    cells = {rank: tuple(map(_ratio, by_rank[rank], medians)) for rank in self_times}
    worst = sorted(self_times, key=lambda rank: -max((cell for cell in cells[rank] if cell is not None), default=0.0))
    shown = tuple(sorted(worst[:rows]))
    return HeatMap(shown, tuple(span[0] for span in spans), tuple(cells[rank] for rank in shown))


def shade(cell: float | None) -> str:
    """Return the character of a cell; a dot means unknown."""
    return "·" if cell is None else SHADES[sum(cell >= bound for bound in _BOUNDS)]


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _ratio(seconds: float | None, median: float | None) -> float | None:
    return seconds / median if seconds is not None and median else None
