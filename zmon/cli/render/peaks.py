"""The terminal output of `zmon bench-peak`: the peak of each dtype, and the memory bandwidth."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import UNKNOWN
from zmon.scaling.peaks import DevicePeaks


def report(device: str, peaks: DevicePeaks) -> RenderableType:
    """Return the output for one device."""
    table = Table(title=device, title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for dtype, rate in peaks.flops.items():
        table.add_row(f"{dtype} matrix product", f"{rate / 1e9:,.1f} GFLOP/s")
    memory = peaks.memory_bandwidth
    table.add_row("memory (triad)", UNKNOWN if memory is None else f"{memory / 1e9:,.1f} GB/s")
    return Group(table, Text(peaks.source, style="dim"))
