"""`zmon predict`: what should so many ranks take, and what if?"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import data_dir_option
from zmon.cli.render.prediction import prediction_table
from zmon.errors import UsageError
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.comm_bench import links, read
from zmon.probe.launch import check_job_id
from zmon.scaling.fit import fit
from zmon.scaling.size_table import parse_sizes, predict_sizes, size_row
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown


@click.command("predict")
@click.argument("name")
@click.option("--ranks", required=True, help="Sizes, with commas between them.")
@click.option("--batch", type=click.IntRange(1), help="Samples of a step of all ranks, at each size (strong scaling).")
@click.option("--batch-per-rank", type=click.IntRange(1), help="Else of each rank (weak); as the smallest size has.")
@click.option("--ranks-per-host", type=click.IntRange(1), help="That a host takes; else as many as one was seen with.")
@click.option("--links", "links_file", type=click.Path(path_type=Path, dir_okay=False), help="Of zmon bench-comm.")
@click.option("--what-if", "what_ifs", multiple=True, metavar="KEY=FACTOR", help="net=2, wire=0.5, … ; repeatable.")
@click.option("--json", "as_json", is_flag=True)
@data_dir_option
def predict_command(
    name: str,
    ranks: str,
    batch: int | None,
    batch_per_rank: int | None,
    ranks_per_host: int | None,
    links_file: Path | None,
    what_ifs: tuple[str, ...],
    as_json: bool,
    data_dir: Path,
) -> None:
    """Predict a step at other sizes from what was recorded of NAME, by zmon scaling --baseline or by jobs of the name.

    Exit code 0: predicted, 2: misuse, 3: unknown at some size.
    """
    if batch and batch_per_rank:
        raise UsageError("--batch and --batch-per-rank contradict each other", "one is of all ranks, one of each")
    baselines = BaselineStore(data_dir / FOLDER)
    curve = baselines.curve(check_job_id(name))
    if not curve.points:
        why = baselines.unusable(name) or f"nothing was recorded of it in {data_dir / FOLDER}"
        raise UsageError(f"{name} cannot be predicted", why, "zmon scaling --baseline NAME records it")
    measured = links(read(links_file)) if links_file else None
    model = fit(curve.points, OPS, measured, ranks_per_host)
    if isinstance(model, Unknown):
        raise UsageError(f"{name} cannot be predicted", model.reason, "zmon scaling --baseline NAME records more sizes")
    each = batch_per_rank or round(curve.points[0].samples / curve.points[0].ranks)
    sizes = predict_sizes(model, [(n, batch or n * each) for n in parse_sizes("--ranks", ranks)], what_ifs)
    if as_json:
        click.echo(
            msgspec.json.encode({"schema": 1, "name": name, "sizes": [size_row(size) for size in sizes]}).decode()
        )
    else:
        Console().print(prediction_table(curve, sizes, what_ifs, model))
    sys.exit(3 if any(isinstance(size.step, Unknown) for size in sizes) else 0)
