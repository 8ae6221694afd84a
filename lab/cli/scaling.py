"""`zmon scaling`: measure how a job scales with its number of ranks."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console

from lab.cli.scaling_table import report
from lab.sweep import FailedRun, Run, Size, command_at, run_at, settled_point, sizes, template
from lab.sweep.job import interruptible
from lab.sweep.results import SizeResult, size_results
from lab.sweep.sizes import BUNDLED, BUNDLED_BATCH
from zmon.cli.options import data_dir_option, json_option
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.measured_files import read_links
from zmon.probe.launch import check_job_id
from zmon.probe.run import inherited_environment
from zmon.scaling.bandwidth import links
from zmon.scaling.size_table import parse_sizes
from zmon.schema.curve import ON_PURPOSE, Point
from zmon.schema.unknown import Unknown


@click.command("scaling", context_settings={"allow_interspersed_args": False})
@click.option("--ranks", default="1,2,4", show_default=True, metavar="N,…", help="Numbers of ranks to measure.")
@click.option("--batch", type=click.IntRange(1), help="Global batch size at the smallest size.")
@click.option(
    "--mode",
    type=click.Choice(["weak", "strong", "both"]),
    default="both",
    show_default=True,
    help="Batch size that stays the same at all sizes: per rank (weak), global (strong), or each in turn (both).",
)
@click.option(
    "--seconds", type=click.FloatRange(1), default=20.0, show_default=True, help="Seconds to train in each run."
)
@click.option("--rounds", type=click.IntRange(1, 10), default=2, show_default=True, help="Number of runs per size.")
@click.option(
    "--start-seconds",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the first step of a run.",
)
@click.option(
    "--links",
    "links_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Path of a file written by zmon bench-comm --out.",
)
@click.option("--baseline", metavar="NAME", help="Record the curve as the baseline of the jobs with this name.")
@json_option
@data_dir_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD…]")
def scaling_command(
    ranks: str,
    batch: int | None,
    mode: str,
    seconds: float,
    rounds: int,
    start_seconds: float,
    links_file: Path | None,
    baseline: str | None,
    as_json: bool,
    data_dir: Path,
    command: tuple[str, ...],
) -> None:
    """Measure how a job scales with its number of ranks.

    CMD is run at several sizes on this node. In CMD, {ranks} is replaced by the number of ranks, {batch} by the global
    batch size and {batch_per_rank} by the batch size per rank. Without {ranks}, zmon sets torchrun's --nproc-per-node
    or starts the script with torchrun.

    Without CMD, zmon runs the bundled trainer.

    Exit codes: 0 all sizes were measured, 1 some sizes were not, 2 misuse.
    """
    if not command:
        command = BUNDLED
        batch = batch or BUNDLED_BATCH
    if baseline is not None:
        check_job_id(baseline)
    command = tuple(template(command))
    modes = ("weak", "strong") if mode == "both" else (mode,)
    all_sizes = sizes(command, parse_sizes("--ranks", ranks), batch, modes)
    measured = links(read_links(links_file)) if links_file else None
    with interruptible():
        points, failed = _measure(all_sizes, command, data_dir, seconds, rounds, start_seconds)
    rows = size_results(points, measured)
    if as_json:
        click.echo(msgspec.json.encode(document(rows, failed)).decode())
    else:
        Console().print(report(rows, failed))
    if baseline is not None and points:
        path = BaselineStore(data_dir / FOLDER).record(baseline, *points)
        click.echo(f"recorded in {path}: the baseline of jobs with --label name={baseline}", err=True)
    sys.exit(1 if failed else 0)


def _measure(
    all_sizes: Sequence[Size], command: Sequence[str], data_dir: Path, seconds: float, rounds: int, start_seconds: float
) -> tuple[list[Point], dict[Size, str]]:
    """Return the point of each measured size, and the reason for each size that was not measured.

    A size that fails once is not run again.
    """
    runs_by_size: dict[Size, list[Run]] = {size: [] for size in all_sizes}
    failed: dict[Size, str] = {}
    for number in range(rounds):
        for size in all_sizes:
            if size in failed:
                continue
            click.echo(f"round {number + 1} of {rounds}: {size}", err=True)
            log = data_dir / "logs" / f"scaling-{size.ranks}x{size.batch or 'own'}.log"
            run = run_at(size, command_at(command, size), inherited_environment(), log, seconds, start_seconds)
            if isinstance(run, FailedRun):
                failed[size] = run.reason
            else:
                runs_by_size[size].append(run)
    points = []
    for size, runs in runs_by_size.items():
        if size in failed:
            continue
        steps = [run.steps for run in runs]
        point = settled_point(steps, size.batch, runs[0].num_processors, ON_PURPOSE, time.time())
        if isinstance(point, Unknown):
            failed[size] = point.reason
        else:
            points.append(point)
    return points, failed


def document(rows: Sequence[SizeResult], failed: dict[Size, str]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {"schema": 1, "sizes": rows, "failed": [{"size": str(size), "why": why} for size, why in failed.items()]}
