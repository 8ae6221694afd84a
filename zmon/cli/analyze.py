"""`zmon analyze`: a verdict on a step log, from this zmon or from elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.render.analysis import caveats, report
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.offline.analyze import Attempt, StepTable, play, read


@click.command()
@click.argument("steps", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--job", help="Which one, where the log holds several.")
@click.option("--attempt", type=int, help="Only this attempt.")
@click.option("--json", "as_json", is_flag=True)
@detectors_option
def analyze(
    steps: tuple[Path, ...], job: str | None, attempt: int | None, as_json: bool, detectors: tuple[Detector, ...]
) -> None:
    """Judge a step log offline (one file from each node): who slowed the job, why, and where its time went.

    Exit code 0: nothing found, 1: findings, 3: the log does not tell.
    """
    log = read(steps, job)
    played = [play(log, number, detectors) for number in log.attempts() if attempt in (None, number)]
    if not played:
        there_are = ", ".join(map(str, log.attempts()))
        raise click.UsageError(f"there is no attempt {attempt} in the log, but {there_are}.")
    if as_json:
        click.echo(msgspec.json.encode(told(log, played)).decode())
    else:
        console = Console()
        console.print(report(log, played, console.width), soft_wrap=False)
    known = log.blames and any(one.book.time.num_steps for one in played)
    sys.exit(1 if any(one.spells for one in played) else 0 if known else 3)


def told(log: StepTable, played: list[Attempt]) -> dict[str, object]:
    """For programs."""
    return {
        "schema": 1,
        "job_id": log.job_id,
        "caveats": caveats(log, played),
        "attempts": [
            {
                "attempt": one.number,
                "world_size": one.world_size,
                "ranks": one.ranks,
                "steps": one.book.time.num_steps,
                "seconds": one.book.time.total_seconds,
                "time": one.book.time.causes,
                "findings": [
                    {"first_step": s.first_step, "last_step": s.last_step, "finding": s.finding} for s in one.spells
                ],
            }
            for one in played
        ],
    }
