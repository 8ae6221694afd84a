"""`zmon predict`: predict the step time of a job at other sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from zmon.cli.options import data_dir_option, json_option
from zmon.cli.render import show
from zmon.cli.render.prediction import prediction_table
from zmon.errors import UsageError
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.offline.measured_files import read_links
from zmon.probe.launch import check_job_id
from zmon.scaling.bandwidth import links
from zmon.scaling.fit import fit
from zmon.scaling.size_table import parse_sizes, predict_sizes, size_row
from zmon.schema.names import OPS
from zmon.schema.unknown import Unknown


@click.command("predict")
@click.argument("name")
@click.option("--ranks", required=True, metavar="N,…", help="Numbers of ranks to predict.")
@click.option("--batch", type=click.IntRange(1), help="Global batch size at every size (strong scaling).")
@click.option(
    "--batch-per-rank", type=click.IntRange(1), help="Batch size per rank (weak scaling). Default: the recorded one."
)
@click.option("--ranks-per-host", type=click.IntRange(1), help="Number of ranks per host. Default: the recorded one.")
@click.option(
    "--links",
    "links_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Path of a file written by zmon bench-comm --out.",
)
@click.option(
    "--what-if",
    "what_ifs",
    multiple=True,
    metavar="KEY=FACTOR",
    help="Also predict with this change, such as net=2 (a network twice as fast). Repeatable.",
)
@json_option
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
    """Predict the step time of the jobs called NAME at other sizes.

    The prediction uses baselines that zmon scaling --baseline or the hub has recorded under NAME.

    Exit codes: 0 predicted, 2 misuse (or NAME has too few baselines), 3 unknown at one size at least.
    """
    if batch and batch_per_rank:
        why = "one is for all ranks, the other for each rank"
        raise UsageError("--batch and --batch-per-rank contradict each other", why)
    baselines = BaselineStore(data_dir / FOLDER)
    curve = baselines.curve(check_job_id(name))
    if not curve.points:
        why = baselines.unusable.get(name) or f"{data_dir / FOLDER} has no baseline of this name"
        raise UsageError(f"cannot predict {name}", why, "Record one with zmon scaling --baseline NAME")
    measured = links(read_links(links_file)) if links_file else None
    model = fit(curve.points, OPS, measured, ranks_per_host)
    if isinstance(model, Unknown):
        raise UsageError(f"cannot predict {name}", model.reason, "Record more sizes with zmon scaling --baseline NAME")
    smallest = curve.points[0]
    per_rank = batch_per_rank or round(smallest.samples / smallest.ranks)
    sizes = predict_sizes(model, [(n, batch or n * per_rank) for n in parse_sizes("--ranks", ranks)], what_ifs)
    answer = {"schema": 1, "name": name, "sizes": [size_row(size) for size in sizes]}
    show(as_json, answer, prediction_table(curve, sizes, what_ifs, model))
    sys.exit(3 if any(isinstance(size.step, Unknown) for size in sizes) else 0)
