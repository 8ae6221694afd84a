"""`zmon bench-comm`: measure the bandwidth and latency of collectives by message size."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from zmon.cli.options import json_option
from zmon.cli.render.bandwidth import report
from zmon.errors import UsageError, ZmonError
from zmon.offline.comm_bench import read

_MODULE = "zmon.offline.comm_bench.measure"
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
            measured = read(file)
            if as_json:
                click.echo(file.read_text())
            else:
                Console().print(report(measured))


def _become_rank(largest: int, out: Path) -> None:
    from zmon.offline.comm_bench import measure  # only a rank needs torch, whose import takes seconds

    measure.main(str(out.absolute()), str(largest))


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
