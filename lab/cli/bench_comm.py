"""`zmon bench-comm`: measure the bandwidth and latency of collectives by message size."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.options import json_option
from zmon.errors import UsageError, ZmonError
from zmon.format import UNKNOWN
from zmon.offline.measured_files import read_links
from zmon.scaling.bandwidth import HOST, NET, MeasuredLinks, links
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
    launched_rank = os.environ.get("RANK")  # set by torchrun; None: this process is not a rank
    if out is not None and launched_rank in (None, "0") and not out.absolute().parent.is_dir():
        raise UsageError(f"cannot write {out}", f"directory {out.absolute().parent} does not exist", "Create it first")
    with tempfile.TemporaryDirectory(prefix="zmon-bench-comm-") as directory:
        file = out or Path(directory) / "links.json"
        if launched_rank is None:
            _launch(ranks, largest, file)
        else:
            _become_rank(largest, file)
        if launched_rank in (None, "0"):
            measured = read_links(file)
            if as_json:
                click.echo(file.read_text())
            else:
                Console().print(report(measured))


def _become_rank(largest: int, out: Path) -> None:
    from lab import comm_bench  # only a rank needs torch, whose import takes seconds

    comm_bench.main(str(out.absolute()), str(largest))


def _launch(ranks: int, largest: int, out: Path) -> None:
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
    """Return a row per message size, then the fitted bandwidth and latency."""
    ops = list(dict.fromkeys(timed.op for timed in measured.timed))
    parts: list[RenderableType] = []
    for group in (HOST, NET):
        timed_in_group = [timed for timed in measured.timed if timed.group == group]
        if not timed_in_group:
            continue
        by_op_and_size = {(timed.op, timed.num_bytes): timed for timed in timed_in_group}
        most_ranks = max(timed.ranks for timed in timed_in_group)
        table = Table(title=f"{group}, {most_ranks} ranks", title_justify="left", title_style="bold", box=None)
        for head in ("size", *(head for op in ops for head in (f"{op} time", "bus bandwidth"))):
            table.add_column(head, justify="right", no_wrap=True)
        for num_bytes in sorted({timed.num_bytes for timed in timed_in_group}):
            cells = [_size(num_bytes)]
            for op in ops:
                timed = by_op_and_size.get((op, num_bytes))
                cells += [UNKNOWN] * 2 if timed is None else [_time(timed.seconds), _rate(timed.bus_bytes_per_second)]
            table.add_row(*cells)
        parts.append(table)
    parts += [Text(f"{op}, fitted: {_fitted(link)}") for op, link in links(measured).items()]
    note = "Size: bytes that each rank hands in. Bus bandwidth is defined as in nccl-tests."
    return Group(*parts, Text(f"{measured.backend}, {measured.ranks} ranks. {note}", style="dim"))


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
