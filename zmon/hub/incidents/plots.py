"""The plots of a report, as SVG. Pure: numbers in, text out; nothing that a job said goes through here.

Places across are percentages and text is never scaled, so the same plot reads on a wall and on a phone. Colours are
the page's own variables, which differ by light and dark. Okabe and Ito's vermillion means the culprit everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from zmon.schema.incident import Moment, PlottedStep
from zmon.stats import quantile

# Self time against the median of all: up to so many times it, and how strongly it is drawn.
LEVELS = ((0.8, 0.06), (1.05, 0.14), (1.15, 0.28), (1.3, 0.44), (1.6, 0.6), (2.5, 0.8), (math.inf, 1.0))
ROW_PIXELS = 13
STRIP_PIXELS = 120
_CLIPPED_AT = 6.0  # × the median step: one step of a minute must not flatten the others
_TICKS = ((-600, "−10 min"), (-60, "−1 min"), (-5, "−5 s"), (0, "0"), (5, "5 s"), (60, "1 min"), (600, "10 min"),
          (3600, "1 h"), (36000, "10 h"))  # fmt: skip


def heat(steps: Sequence[PlottedStep], ranks: Sequence[int]) -> tuple[str, float] | None:
    """Self time by rank (rows, as given) and step (columns), and the median it is measured by; None of no steps.

    What is not known stays empty.
    """
    own = {(step.rank, step.step): step.self_seconds for step in steps}
    median = quantile([*own.values()], 0.5)
    if not median:
        return None
    numbers = sorted({step.step for step in steps})
    paths: dict[float, list[str]] = {}
    for row, rank in enumerate(ranks):
        levels = [_level(own.get((rank, number)), median) for number in numbers]
        for begin, length, strength in _stretches(levels):
            paths.setdefault(strength, []).append(f"M{begin} {row}h{length}v.9h-{length}z")
    under = f'<path class="known" d="{"".join("".join(d) for d in paths.values())}"/>'
    drawn = "".join(f'<path d="{"".join(d)}" fill-opacity="{strength}"/>' for strength, d in sorted(paths.items()))
    height = ROW_PIXELS * len(ranks)
    return (
        f'<svg class="heat" width="100%" height="{height}" viewBox="0 0 {len(numbers)} {len(ranks)}" '
        f'preserveAspectRatio="none" shape-rendering="crispEdges" role="img">{under}{drawn}</svg>',
        median,
    )


def strip(steps: Sequence[PlottedStep], culprits: Sequence[int]) -> tuple[str, float, float] | None:
    """Step time, the slowest rank's, with the self time of the median rank and of the slowest culprit beneath it.

    Returns also the top of the scale and the longest step, which may reach beyond it. None of no steps.
    """
    by_step: dict[int, list[PlottedStep]] = {}
    for step in steps:
        by_step.setdefault(step.step, []).append(step)
    if len(by_step) < 2:
        return None
    order = [by_step[number] for number in sorted(by_step)]
    whole = [max(step.duration for step in at) for at in order]
    usual = quantile(whole, 0.5) or 0.0
    top = min(max(whole), _CLIPPED_AT * usual) * 1.05 or 1.0
    own = [quantile([step.self_seconds for step in at], 0.5) for at in order]
    blamed = [max((step.self_seconds for step in at if step.rank in culprits), default=None) for at in order]
    lines = [_line(values, top, name) for values, name in ((whole, "whole"), (own, "own"), (blamed, "blamed"))]
    return (
        f'<svg class="strip" width="100%" height="{STRIP_PIXELS}" viewBox="0 0 {len(order) - 1} 1" '
        f'preserveAspectRatio="none" role="img">{"".join(lines)}</svg>',
        top,
        max(whole),
    )


def timeline(moments: Sequence[Moment], onset: float) -> str:
    """A numbered dot for each, seconds from the first sign near it and hours far from it (symmetric logarithm)."""
    ats = [_bent(moment.time - onset) for moment in moments] or [0.0]
    low, high = min(*ats, 0.0) - 0.3, max(*ats, _bent(5)) + 0.3

    def across(bent: float) -> str:
        return f"{2 + 96 * (bent - low) / (high - low):.2f}%"

    ticks = "".join(
        f'<line x1="{across(_bent(at))}" x2="{across(_bent(at))}" y1="0" y2="62" class="tick"/>'
        f'<text x="{across(_bent(at))}" y="76" text-anchor="middle">{word}</text>'
        for at, word in _TICKS
        if low <= _bent(at) <= high
    )
    dots, taken = [], [-9.0, -9.0, -9.0]
    for number, at in enumerate(ats, 1):
        place = 100 * (at - low) / (high - low)
        row = next((row for row, last in enumerate(taken) if place - last > 4.5), number % len(taken))
        taken[row] = place
        y = 12 + 20 * row
        dots.append(
            f'<circle cx="{across(at)}" cy="{y}" r="8"/>'
            f'<text class="number" x="{across(at)}" y="{y + 4}" text-anchor="middle">{number}</text>'
        )
    return f'<svg class="moments" width="100%" height="80" role="img">{ticks}{"".join(dots)}</svg>'


def _line(values: Sequence[float | None], top: float, name: str) -> str:
    """A step that is not known parts it."""
    parts, pen = [], "M"
    for x, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{x} {1 - min(value / top, 1):.4f}")
        pen = "L"
    return f'<path class="{name}" d="{"".join(parts)}" vector-effect="non-scaling-stroke"/>'


def _level(value: float | None, median: float) -> float | None:
    return None if value is None else next(strength for most, strength in LEVELS if value <= most * median)


def _stretches(levels: Sequence[float | None]) -> Iterator[tuple[int, int, float]]:
    """Begin, length and strength of each run of the same level."""
    begin = 0
    for at in range(1, len(levels) + 1):
        if at == len(levels) or levels[at] != levels[begin]:
            strength = levels[begin]
            if strength is not None:
                yield begin, at - begin, strength
            begin = at


def _bent(seconds: float) -> float:
    return math.copysign(math.log10(1 + abs(seconds)), seconds)
