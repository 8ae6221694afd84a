"""`zmon bench-comm`: measure the bandwidth and latency of collectives by message size."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.options import json_option
from zmon.errors import UsageError, ZmonError
from zmon.format import UNKNOWN
from zmon.offline.measured_files import read_links
from zmon.scaling.bandwidth import HOST, NET, MeasuredLinks, TimedMessage, links
from zmon.scaling.predict import Links

_MODULE = "lab.comm_bench"
_TIMEOUT_SECONDS = 600.0


@click.command("bench-comm")
@click.option(
    "--ranks",
    type=click.IntRange(2),
    default=2,
    show_default=True,
    help="Number of ranks to start on this node. Ignored under torchrun.",
)
@click.option(
    "--largest",
    type=click.IntRange(1 << 10),
    default=64 << 20,
    show_default=True,
    help="Largest message, in bytes per rank.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Path of a file to write the result to, for --links of zmon scaling and zmon predict.",
)
@json_option
def bench_comm_command(ranks: int, largest: int, out: Path | None, as_json: bool) -> None:
    """Measure the bandwidth and latency of all-to-all and all-reduce.

    The benchmark uses NCCL if each rank has its own GPU, otherwise gloo. To measure between hosts, start it like the
    job: torchrun … -m zmon bench-comm --out FILE

    Exit codes: 0 measured, 1 the benchmark failed, 2 misuse.
    """
    rank = os.environ.get("RANK")  # set by torchrun; None: this process is not a rank
    prints_report = rank in (None, "0")
    if out is not None and prints_report and not out.absolute().parent.is_dir():
        raise UsageError(f"cannot write {out}", f"directory {out.absolute().parent} does not exist", "Create it first")
    with tempfile.TemporaryDirectory(prefix="zmon-bench-comm-") as directory:
        file = out or Path(directory) / "links.json"
        if rank is None:
            _launch(ranks, largest, file)
        else:
            _become_rank(largest, file)
        if prints_report:
            measured = read_links(file)
            if as_json:
                click.echo(file.read_text())
            else:
                Console().print(report(measured))


def _become_rank(largest: int, out: Path) -> None:
    """Run the benchmark as a rank of the job that torchrun started."""
    from lab import comm_bench  # only a rank needs torch, whose import takes seconds

    comm_bench.main(str(out.absolute()), str(largest))


def _launch(ranks: int, largest: int, out: Path) -> None:
    """Run the benchmark in its own job. Raises ZmonError if it fails or takes too long."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    job = subprocess.Popen(
        (*launcher, "-m", _MODULE, str(out.absolute()), str(largest)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = job.communicate(timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise ZmonError(
            "the benchmark timed out", f"it ran for more than {_TIMEOUT_SECONDS:.0f} s", "Try a smaller --largest"
        ) from None
    finally:
        job.terminate()
        job.wait()
    if job.returncode:
        errors = (line.strip() for line in reversed(output.splitlines()) if "Error" in line)
        why = next(errors, "its ranks printed no error")
        raise ZmonError("the benchmark failed", why, "Is torch installed, and does this node have that many devices?")


def report(measured: MeasuredLinks) -> RenderableType:
    """Return a table of times and bandwidths by message size for each group, then the fitted bandwidth and latency."""
    groups = {group: [timed for timed in measured.timed if timed.group == group] for group in (HOST, NET)}
    ops = list(dict.fromkeys(timed.op for timed in measured.timed))
    tables = [_table(group, ops, timed) for group, timed in groups.items() if timed]
    fits = [Text(f"{op}, fitted: {_fitted(link)}") for op, link in links(measured).items()]
    note = "Size: bytes that each rank hands in. Bus bandwidth is defined as in nccl-tests."
    return Group(*tables, *fits, Text(f"{measured.backend}, {measured.ranks} ranks. {note}", style="dim"))


def _table(group: str, ops: Sequence[str], timed_in_group: Sequence[TimedMessage]) -> Table:
    """Return a row for each message size, with two cells for each operation."""
    most_ranks = max(timed.ranks for timed in timed_in_group)
    table = Table(title=f"{group}, {most_ranks} ranks", title_justify="left", title_style="bold", box=None)
    table.add_column("size", justify="right", no_wrap=True)
    for op in ops:
        table.add_column(f"{op} time", justify="right", no_wrap=True)
        table.add_column("bus bandwidth", justify="right", no_wrap=True)
    by_op_and_size = {(timed.op, timed.num_bytes): timed for timed in timed_in_group}
    for num_bytes in sorted({timed.num_bytes for timed in timed_in_group}):
        cells = [_size(num_bytes)]
        for op in ops:
            timed = by_op_and_size.get((op, num_bytes))
            cells += [UNKNOWN] * 2 if timed is None else [_time(timed.seconds), _rate(timed.bus_bytes_per_second)]
        table.add_row(*cells)
    return table


def _fitted(link_of_op: Links) -> str:
    by_group = ((link_of_op.host, HOST), (link_of_op.net, NET))
    return "; ".join(
        f"{group} bus bandwidth {_rate(link.bytes_per_second)}, latency {_time(link.latency_seconds)}"
        for link, group in by_group
        if link
    )


def _size(num_bytes: int) -> str:
    """Format bytes: 1024 → 1 KiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:,.4g} {name}"
    return f"{num_bytes} B"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:,.0f} µs" if seconds < 0.01 else f"{1e3 * seconds:,.1f} ms"


def _rate(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:,.2f} GB/s"
