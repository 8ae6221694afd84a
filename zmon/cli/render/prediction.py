"""The terminal output of `zmon predict`: a row per size, with a column for the what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.format import UNKNOWN, duration
from zmon.scaling.expected import parts_of
from zmon.scaling.fit import Model
from zmon.scaling.predict import PredictedStep
from zmon.scaling.size_table import SizePrediction
from zmon.schema.curve import ScalingCurve
from zmon.schema.unknown import Unknown


def prediction_table(
    curve: ScalingCurve, sizes: Sequence[SizePrediction], what_ifs: Sequence[str], model: Model
) -> RenderableType:
    """Return a row per size that can be predicted; below it the time categories, and the baselines that were used."""
    columns = ["ranks", "samples", "step", "samples/s", "efficiency", *([", ".join(what_ifs)] if what_ifs else [])]
    table = Table(*number_columns(*columns, no_wrap=True), box=None, padding=(0, 2, 0, 0))
    for size in sizes:
        if not isinstance(size.step, Unknown):
            table.add_row(*_cells(curve, size, size.step))
    recorded = ", ".join(f"{p.ranks} × {p.samples / p.ranks:,.0f}" for p in curve.points)
    notes = [f"from the baselines of {curve.name}: {recorded} samples (ranks × samples per rank)"]
    if model.work.processors_per_host:
        notes.append(f"the ranks of a host share {model.work.processors_per_host} processors")
    return Group(table, Text(""), *map(_categories, sizes), *(Text(note, style="dim") for note in notes))


def _cells(curve: ScalingCurve, size: SizePrediction, step: PredictedStep) -> list[str]:
    efficiency = curve.efficiency(size.ranks, size.samples, step.samples_per_second)
    cells = [
        str(size.ranks),
        f"{size.samples:,}",
        duration(step.seconds),
        f"{step.samples_per_second:,.0f}",
        UNKNOWN if isinstance(efficiency, Unknown) else f"{efficiency.ratio:.1%} {efficiency.scaling}",
    ]
    if isinstance(size.what_if, Unknown):
        cells.append(UNKNOWN)
    elif size.what_if is not None:
        cells.append(f"{duration(size.what_if.seconds)} ({size.what_if.seconds / step.seconds - 1:+.0%})")
    return cells


def _categories(size: SizePrediction) -> Text:
    """Return the time categories of the step, the longest first, or why it is unknown."""
    if isinstance(size.step, Unknown):
        return Text(f"{size.ranks} ranks: unknown, {size.step.reason}", style="yellow")
    categories = sorted(parts_of(size.step).items(), key=lambda item: -item[1])
    shown = [f"{category} {duration(seconds)}" for category, seconds in categories if seconds]
    return Text(f"{size.ranks} ranks: {', '.join(shown)}")
