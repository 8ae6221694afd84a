"""`zmon bench-comm`: how fast are exchanges here, by how much is exchanged?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from zmon.cli.render.bandwidth import report
from zmon.errors import UsageError, ZmonError
from zmon.offline.comm_bench import read

_MODULE = "zmon.offline.comm_bench.measure"
_SECONDS = 600.0  # at most


@click.command("bench-comm")
@click.option("--ranks", type=click.IntRange(2), default=2, show_default=True, help="Of this node, unless launched.")
@click.option("--largest", type=click.IntRange(1 << 10), default=64 << 20, show_default=True, help="Bytes handed in.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Keep it: zmon scaling --links reads it.")
@click.option("--json", "as_json", is_flag=True)
def bench_comm_command(ranks: int, largest: int, out: Path | None, as_json: bool) -> None:
    """Time all-to-all and all-reduce by message size, with NCCL on GPUs, else with gloo.

    On the ranks of a job, start it as the job is started: torchrun … -m zmon bench-comm --out FILE
    """
    launched = os.environ.get("RANK")  # torchrun's
    if out is not None and launched in (None, "0") and not out.absolute().parent.is_dir():
        raise UsageError(f"cannot write {out}", f"there is no folder {out.absolute().parent}", "Make it first")
    with tempfile.TemporaryDirectory(prefix="zmon-bench-comm-") as folder:
        found = out or Path(folder) / "links.json"
        if launched is None:
            _launch(ranks, largest, found)
        else:
            _become_rank(largest, found)
        if launched in (None, "0"):
            measured = read(found)
            if as_json:
                click.echo(found.read_text())
            else:
                Console().print(report(measured))


def _become_rank(largest: int, out: Path) -> None:
    from zmon.offline.comm_bench import measure  # torch takes seconds to import: only who is a rank needs it

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
        said, _ = job.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ZmonError(
            "the exchanges were not done in time", f"{_SECONDS:.0f} s were not enough", "Try a smaller --largest"
        ) from None
    finally:
        job.terminate()
        job.wait()
    if job.returncode:
        last = next((line.strip() for line in reversed(said.splitlines()) if "Error" in line), "it said nothing of it")
        raise ZmonError("the exchanges could not be timed", last, "Is torch there, and has this node as many devices?")
