"""The terminal output of `zmon scaling`: a row per size, then the losses of each size, then the unknown results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lab.sweep.results import SizeResult
from lab.sweep.sizes import Size
from zmon.format import UNKNOWN
from zmon.offline.compare.judge import CERTAINTY
from zmon.scaling.predict import ranks_per_processor

_MAX_LOSSES = 3  # time categories per size
_ABOUT = (
    f"± is the {CERTAINTY:.0%} confidence interval. Samples: per step, of all ranks. Efficiency: samples per second "
    "and rank, divided by the same figure of the smallest size. A step loses the time by which it is longer than at "
    "the smallest size, for as many samples per rank. Predicted: from the smaller sizes alone, with the error."
)


def report(rows: Sequence[SizeResult], failed: Mapping[Size, str]) -> RenderableType:
    """Return the output for one curve; `failed` has the reason for each size without a result."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("scaling", "ranks", "samples", "step, ms", "samples/s", "efficiency", "predicted"):
        table.add_column(head, justify="left" if head == "scaling" else "right", no_wrap=True)
    fewest = min((row.point.ranks for row in rows), default=0)
    for row in rows:
        table.add_row(*_cells(row, fewest))
    lines = [Text(f"{row.scaling}, {row.point.ranks} ranks: a step loses {_lost(row)}") for row in rows if row.lost]
    lines += [Text(f"{size}: unknown, {why}", style="yellow") for size, why in failed.items()]
    reasons = dict.fromkeys(row.unpredicted for row in rows if row.unpredicted)
    lines += [Text(f"no prediction: {reason}", style="yellow") for reason in reasons]
    if not rows:
        return Group(*lines)
    lines += [Text(line, style="dim") for line in (*_shared_processors(rows), _ABOUT)]
    return Group(table, Text(""), *lines)


def _cells(row: SizeResult, fewest: int) -> tuple[str, ...]:
    point = row.point
    return (
        row.scaling or "–",
        str(point.ranks),
        f"{point.samples:,}",
        f"{1000 * point.seconds:,.2f} ± {1000 * (point.half_width_seconds or 0.0):,.2f}",
        f"{point.samples / point.seconds:,.0f}",
        _efficiency(row, fewest),
        _predicted(row),
    )


def _efficiency(row: SizeResult, fewest: int) -> str:
    if row.ratio is None:
        return "1" if row.point.ranks == fewest else UNKNOWN
    return f"{row.ratio:.1%} ± {row.half_width or 0.0:.1%}"


def _lost(row: SizeResult) -> str:
    return ", ".join(f"{share:.0%} to {category}" for category, share in [*row.lost.items()][:_MAX_LOSSES])


def _predicted(row: SizeResult) -> str:
    if row.predicted_seconds is None:
        return UNKNOWN if row.unpredicted else ""
    return f"{1000 * row.predicted_seconds:,.2f} ({row.predicted_seconds / row.point.seconds - 1:+.0%})"


def _shared_processors(rows: Sequence[SizeResult]) -> list[str]:
    """Return a line if several ranks shared a processor."""
    points = [row.point for row in rows]
    shared = [
        point
        for point in points
        if ranks_per_processor(point.ranks, point.ranks_per_host or point.ranks, point.processors_per_host) > 1
    ]
    if not shared:
        return []
    most_ranks = max(point.ranks for point in shared)
    return [
        f"{shared[0].processors_per_host} processors for up to {most_ranks} ranks: the ranks take turns, which lowers "
        "the efficiency as well"
    ]
