"""The terminal output of `zmon predict`: a row per size, with a column for the what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import UNKNOWN, duration
from zmon.scaling.expected import parts_of
from zmon.scaling.fit import Model
from zmon.scaling.size_table import SizePrediction
from zmon.schema.curve import ScalingCurve
from zmon.schema.unknown import Unknown


def prediction_table(
    curve: ScalingCurve, sizes: Sequence[SizePrediction], what_ifs: Sequence[str], model: Model
) -> RenderableType:
    """Return a row per size; below it the time categories of each step and the baselines that were used."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("ranks", "samples", "step", "samples/s", "efficiency", *([", ".join(what_ifs)] if what_ifs else ())):
        table.add_column(head, justify="right", no_wrap=True)
    lines = []
    for size in sizes:
        ranks, samples, step, other = size.ranks, size.samples, size.step, size.what_if
        if isinstance(step, Unknown):
            lines.append(Text(f"{ranks} ranks: unknown, {step.reason}", style="yellow"))
            continue
        efficiency = curve.efficiency(ranks, samples, step.samples_per_second)
        cells = [str(ranks), f"{samples:,}", duration(step.seconds), f"{step.samples_per_second:,.0f}"]
        cells.append(UNKNOWN if isinstance(efficiency, Unknown) else f"{efficiency.ratio:.1%} {efficiency.scaling}")
        if other is not None:
            cells.append(
                UNKNOWN
                if isinstance(other, Unknown)
                else f"{duration(other.seconds)} ({other.seconds / step.seconds - 1:+.0%})"
            )
        table.add_row(*cells)
        parts = sorted(parts_of(step).items(), key=lambda item: -item[1])
        lines.append(Text(f"{ranks} ranks: " + ", ".join(f"{part} {duration(s)}" for part, s in parts if s)))
    recorded = ", ".join(f"{p.ranks} × {p.samples / p.ranks:,.0f}" for p in curve.points)
    lines.append(
        Text(f"from the baselines of {curve.name}: {recorded} samples (ranks × samples per rank)", style="dim")
    )
    if model.work.processors_per_host:
        lines.append(Text(f"the ranks of a host share {model.work.processors_per_host} processors", style="dim"))
    return Group(table, Text(""), *lines)
