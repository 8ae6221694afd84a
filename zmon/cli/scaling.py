"""`zmon scaling`: what do more ranks make of this job?"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import data_dir_option
from zmon.cli.render.sweep import report
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.comm_bench import links, read
from zmon.offline.compare import Series
from zmon.offline.sweep import Failed, Size, command_at, run_at, settled, sizes, template
from zmon.offline.sweep.job import interruptible
from zmon.offline.sweep.judged import SizeResult, judged
from zmon.offline.sweep.sizes import BUNDLED, BUNDLED_BATCH
from zmon.probe.launch import check_job_id
from zmon.probe.run import inherited
from zmon.scaling.size_table import parse_sizes
from zmon.schema.curve import ON_PURPOSE, Point
from zmon.schema.unknown import Unknown


@click.command("scaling", context_settings={"allow_interspersed_args": False})
@click.option("--ranks", default="1,2,4", show_default=True, help="Sizes, with commas between them.")
@click.option("--batch", type=click.IntRange(1), help="Samples of a step of all ranks at the smallest size.")
@click.option("--mode", type=click.Choice(["weak", "strong", "both"]), default="both", show_default=True)
@click.option("--seconds", type=click.FloatRange(1), default=20.0, show_default=True, help="Of training, each run.")
@click.option("--rounds", type=click.IntRange(1, 10), default=2, show_default=True, help="Runs of each size, by turns.")
@click.option("--start-seconds", type=click.FloatRange(1), default=300.0, show_default=True, help="To the first step.")
@click.option("--links", "links_file", type=click.Path(path_type=Path, dir_okay=False), help="Of zmon bench-comm.")
@click.option("--baseline", help="Keep the curve under this name: jobs of the name are held against it.")
@click.option("--json", "as_json", is_flag=True)
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
    """Run a command at several sizes on this node and tell the curve; without one, the bundled trainer.

    {ranks} in the command becomes the number of ranks, {batch} the samples of a step of all of them,
    {batch_per_rank} of each. Without {ranks} it is torchrun's --nproc-per-node, or torchrun starts the script.

    Exit code 0: all sizes were measured, 1: some were not, 2: misuse.
    """
    if not command:
        command, batch = BUNDLED, batch or BUNDLED_BATCH
    if baseline is not None:
        check_job_id(baseline)
    command = tuple(template(command))
    modes = ("weak", "strong") if mode == "both" else (mode,)
    wanted = sizes(command, parse_sizes("--ranks", ranks), batch, modes)
    measured = links(read(links_file)) if links_file else None
    with interruptible():
        points, failed = _measured(wanted, command, data_dir, seconds, rounds, start_seconds)
    rows = judged(points, measured)
    if as_json:
        click.echo(msgspec.json.encode(told(rows, failed)).decode())
    else:
        Console().print(report(rows, failed))
    if baseline is not None and points:
        where = BaselineStore(data_dir / FOLDER).record(baseline, *points)
        click.echo(f"kept in {where}: jobs with --label name={baseline} are held against it", err=True)
    sys.exit(1 if failed else 0)


def _measured(
    wanted: Sequence[Size], command: Sequence[str], data_dir: Path, seconds: float, rounds: int, start_seconds: float
) -> tuple[list[Point], dict[Size, str]]:
    """A point for each size, and why there is none. A size that fails once is not run again."""
    found: dict[Size, list[tuple[Series, int | None]]] = {size: [] for size in wanted}
    failed: dict[Size, str] = {}
    for number in range(rounds):
        for size in wanted:
            if size in failed:
                continue
            click.echo(f"round {number + 1} of {rounds}: {size}", err=True)
            log = data_dir / "logs" / f"scaling-{size.ranks}x{size.batch or 'own'}.log"
            got = run_at(size, command_at(command, size), inherited(), log, seconds, start_seconds)
            if isinstance(got, Failed):
                failed[size] = got.why
            else:
                found[size].append(got)
    points = []
    for size, runs in found.items():
        if size not in failed:
            point = settled([steps for steps, _ in runs], size.batch, runs[0][1], ON_PURPOSE, time.time())
            if isinstance(point, Unknown):
                failed[size] = point.reason
            else:
                points.append(point)
    return points, failed


def told(rows: Sequence[SizeResult], failed: dict[Size, str]) -> dict[str, object]:
    """For programs."""
    return {"schema": 1, "sizes": rows, "failed": [{"size": str(size), "why": why} for size, why in failed.items()]}
