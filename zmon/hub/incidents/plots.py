"""The plots of a report, as SVG. Pure. A plot has numbers and texts of this module, never text from a job.

Horizontal positions are percentages and text is never scaled, which keeps a plot readable on a wall and on a phone.
Colours are variables of the page, which has a light and a dark theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from zmon.schema.incident import PlottedStep, TimelineEvent
from zmon.stats import quantile

# (largest ratio of self time to the median of all, opacity of its cell)
LEVELS = ((0.8, 0.06), (1.05, 0.14), (1.15, 0.28), (1.3, 0.44), (1.6, 0.6), (2.5, 0.8), (math.inf, 1.0))
ROW_PIXELS = 13
STRIP_PIXELS = 120
_CLIP_RATIO = 6.0  # × the median step: a step of one minute must not flatten the others
_TICKS = ((-600, "−10 min"), (-60, "−1 min"), (-5, "−5 s"), (0, "0"), (5, "5 s"), (60, "1 min"), (600, "10 min"),
          (3600, "1 h"), (36000, "10 h"))  # fmt: skip
_SHORTEST_AXIS_SECONDS = 5  # a time axis goes on for at least this long after the onset
_AXIS_MARGIN = 0.3  # left and right of a time axis, in powers of ten
_DOT_ROWS = 3  # so that dots of moments close to each other do not cover each other
_DOT_PERCENT = 4.5  # of the width: dots of one row with this distance do not cover each other


class SelfTimePlot(NamedTuple):
    """A heat map of self time."""

    svg: str
    median_seconds: float  # self time of a rank in a step; the levels are relative to it


class StepTimePlot(NamedTuple):
    """A plot of step time."""

    svg: str
    top_seconds: float  # the top of the scale
    longest_seconds: float  # the longest step, which may exceed the scale


def self_time_plot(steps: Sequence[PlottedStep], ranks: Sequence[int]) -> SelfTimePlot | None:
    """Return the self time by rank (rows, as given) and step (columns); None without steps.

    A cell is empty where the self time is unknown.
    """
    self_seconds = {(step.rank, step.step): step.self_seconds for step in steps}
    median = quantile([*self_seconds.values()], 0.5)
    if not median:
        return None
    step_numbers = sorted({step.step for step in steps})
    bars: dict[float, str] = {}  # by opacity: the path of the bars of equal cells, which leave a gap between two rows
    for row, rank in enumerate(ranks):
        opacities = [_opacity(self_seconds.get((rank, number)), median) for number in step_numbers]
        for begin, length, opacity in _runs(opacities):
            bars[opacity] = bars.get(opacity, "") + f"M{begin} {row}h{length}v.9h-{length}z"
    background = f'<path class="known" d="{"".join(bars.values())}"/>'
    cells = "".join(f'<path d="{path}" fill-opacity="{opacity}"/>' for opacity, path in sorted(bars.items()))
    height = ROW_PIXELS * len(ranks)
    return SelfTimePlot(
        f'<svg class="heat" width="100%" height="{height}" viewBox="0 0 {len(step_numbers)} {len(ranks)}" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges" role="img">{background}{cells}</svg>',
        median,
    )


def step_time_plot(steps: Sequence[PlottedStep], culprits: Sequence[int]) -> StepTimePlot | None:
    """Return the plot of step time, with the self time of the median rank and of the slowest culprit.

    The step time is that of the slowest rank. None with fewer than 2 steps.
    """
    by_step: dict[int, list[PlottedStep]] = {}
    for step in steps:
        by_step.setdefault(step.step, []).append(step)
    if len(by_step) < 2:
        return None
    order = [by_step[number] for number in sorted(by_step)]
    step_seconds = [max(step.duration for step in ranks) for ranks in order]
    typical = quantile(step_seconds, 0.5) or 0.0
    top = min(max(step_seconds), _CLIP_RATIO * typical) * 1.05 or 1.0
    median_self = [quantile([step.self_seconds for step in ranks], 0.5) for ranks in order]
    culprit_self = [
        max((step.self_seconds for step in ranks if step.rank in culprits), default=None) for ranks in order
    ]
    lines = [
        _line(values, top, name)
        for values, name in ((step_seconds, "whole"), (median_self, "self"), (culprit_self, "culprit"))
    ]
    return StepTimePlot(
        f'<svg class="strip" width="100%" height="{STRIP_PIXELS}" viewBox="0 0 {len(order) - 1} 1" '
        f'preserveAspectRatio="none" role="img">{"".join(lines)}</svg>',
        top,
        max(step_seconds),
    )


def timeline(moments: Sequence[TimelineEvent], onset: float) -> str:
    """Return a time axis with a numbered dot for each moment.

    The axis is a symmetric logarithm of the time since `onset`: seconds near it, hours far from it.
    """
    positions = [_symmetric_log(moment.time - onset) for moment in moments] or [0.0]
    low = min(*positions, 0.0) - _AXIS_MARGIN
    high = max(*positions, _symmetric_log(_SHORTEST_AXIS_SECONDS)) + _AXIS_MARGIN

    def percent_of_width(position: float) -> str:
        return f"{2 + 96 * (position - low) / (high - low):.2f}%"

    ticks = "".join(
        f'<line x1="{percent_of_width(position)}" x2="{percent_of_width(position)}" y1="0" y2="62" class="tick"/>'
        f'<text x="{percent_of_width(position)}" y="76" text-anchor="middle">{label}</text>'
        for position, label in ((_symmetric_log(seconds), label) for seconds, label in _TICKS)
        if low <= position <= high
    )
    dots = []
    last_in_row = [-math.inf] * _DOT_ROWS  # percent
    for number, position in enumerate(positions, 1):
        percent = 100 * (position - low) / (high - low)
        row = next((row for row, last in enumerate(last_in_row) if percent - last > _DOT_PERCENT), number % _DOT_ROWS)
        last_in_row[row] = percent
        y = 12 + 20 * row
        dots.append(
            f'<circle cx="{percent_of_width(position)}" cy="{y}" r="8"/>'
            f'<text class="number" x="{percent_of_width(position)}" y="{y + 4}" text-anchor="middle">{number}</text>'
        )
    return f'<svg class="moments" width="100%" height="80" role="img">{ticks}{"".join(dots)}</svg>'


def _line(values: Sequence[float | None], top: float, name: str) -> str:
    """Return a line through the values; an unknown value interrupts it."""
    parts = []
    pen = "M"  # M moves to the next point, L draws a line to it
    for x, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{x} {1 - min(value / top, 1):.4f}")
        pen = "L"
    return f'<path class="{name}" d="{"".join(parts)}" vector-effect="non-scaling-stroke"/>'


def _opacity(self_seconds: float | None, median: float) -> float | None:
    if self_seconds is None:
        return None
    return next(opacity for ratio, opacity in LEVELS if self_seconds <= ratio * median)


def _runs(opacities: Sequence[float | None]) -> Iterator[tuple[int, int, float]]:
    """Yield begin, length and opacity of each run of equal opacities; None separates runs."""
    begin = 0
    for opacity, run in groupby(opacities):
        length = sum(1 for _ in run)
        if opacity is not None:
            yield begin, length, opacity
        begin += length


def _symmetric_log(seconds: float) -> float:
    return math.copysign(math.log10(1 + abs(seconds)), seconds)
