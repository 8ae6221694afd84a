"""`zmon bench-peak`: measure the peak of this host's processors, for the hub's `--peaks`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.options import json_option
from zmon.errors import UsageError, ZmonError, install_command
from zmon.format import UNKNOWN
from zmon.offline.measured_files import write_peaks
from zmon.scaling.peaks import DevicePeaks, processors_name


@click.command("bench-peak")
@click.option(
    "--seconds",
    type=click.FloatRange(0.0, 600.0),
    default=2.0,
    show_default=True,
    help="Time for each dtype, and for the memory.",
)
@click.option(
    "--size",
    type=click.IntRange(64, 1 << 15),
    default=2048,
    show_default=True,
    help="Rows and columns of the matrices.",
)
@click.option(
    "--elements",
    type=click.IntRange(1 << 10, 1 << 31),
    default=1 << 25,
    show_default=True,
    help="Length of each of the three arrays of float64 for the memory. Together they must exceed the caches.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Path of a YAML file to add the result to, for --peaks of zmon hub.",
)
@json_option
def bench_peak_command(seconds: float, size: int, elements: int, out: Path | None, as_json: bool) -> None:
    """Measure the peak of this host's processors: matrix products by dtype, and the memory bandwidth.

    Run it on an idle host of each kind whose ranks compute on CPUs. GPUs have the peaks of their datasheets.

    Exit codes: 0 measured, 1 the benchmark failed, 2 misuse.
    """
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageError(f"cannot write {out}", f"directory {out.absolute().parent} does not exist", "Create it first")
    device = processors_name(Path("/proc/cpuinfo").read_text(errors="replace"))
    if not device:
        raise ZmonError(
            "these processors have no name", "/proc/cpuinfo has no model name", "The ratio to their peak stays unknown"
        )
    try:
        from lab.peak_bench import measure  # torch, whose import takes seconds
    except ImportError:
        next_step = f"Run {install_command('trainer')}, or use the Python of the job"
        raise UsageError("cannot measure", "torch is not installed", next_step) from None
    peaks = measure(seconds, size, elements)
    if out is not None:
        write_peaks(out, {device: peaks})
    if as_json:
        click.echo(msgspec.json.encode({"schema": 1, "device": device, "peaks": peaks}).decode())
    else:
        Console().print(report(device, peaks))


def report(device: str, peaks: DevicePeaks) -> RenderableType:
    """Return the peak of each dtype and the memory bandwidth of one device."""
    table = Table(title=device, title_justify="left", title_style="bold", box=None, show_header=False)
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    for dtype, rate in peaks.flops.items():
        table.add_row(f"{dtype} matrix product", f"{rate / 1e9:,.1f} GFLOP/s")
    memory = peaks.memory_bandwidth
    table.add_row("memory (triad)", UNKNOWN if memory is None else f"{memory / 1e9:,.1f} GB/s")
    return Group(table, Text(peaks.source, style="dim"))
