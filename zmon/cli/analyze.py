"""`zmon analyze`: run the detectors on a step log, written by zmon or by another tool."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import json_option
from zmon.cli.render.analysis import caveats, report
from zmon.cli.thresholds import detectors_option
from zmon.detectors import Detector
from zmon.offline.analyze import Attempt, StepTable, play, read


@click.command()
@click.argument("steps", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--job", metavar="ID", help="ID of the job to analyze. Required if the log has several jobs.")
@click.option("--attempt", type=int, help="Number of the attempt to analyze. Default: all attempts.")
@json_option
@detectors_option
def analyze(
    steps: tuple[Path, ...], job: str | None, attempt: int | None, as_json: bool, detectors: tuple[Detector, ...]
) -> None:
    """Analyze a step log of zmon or of another tool: which rank slowed the job, and why.

    STEPS are .parquet or .jsonl files, one from each node, with the columns that zmon steps writes. A log of another
    tool needs at least the columns rank, step and duration. Without columns for exposed time or phases, zmon cannot
    tell which rank waits for which. The output has the findings, where the time went, and a heat map of the self time
    of the ranks.

    Exit codes: 0 no findings, 1 findings, 2 misuse, 3 unknown (the log does not have enough data).
    """
    log = read(steps, job)
    attempts = [play(log, number, detectors) for number in log.attempts() if attempt in (None, number)]
    if not attempts:
        numbers = ", ".join(map(str, log.attempts()))
        raise click.UsageError(f"the log has no attempt {attempt}; its attempts are {numbers}.")
    if as_json:
        click.echo(msgspec.json.encode(document(log, attempts)).decode())
    else:
        console = Console()
        console.print(report(log, attempts, console.width), soft_wrap=False)
    conclusive = log.has_exposed_time and any(replayed.job_state.time.num_steps for replayed in attempts)
    sys.exit(1 if any(replayed.spans for replayed in attempts) else 0 if conclusive else 3)


def document(log: StepTable, attempts: list[Attempt]) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        "schema": 1,
        "job_id": log.job_id,
        "caveats": caveats(log, attempts),
        "attempts": [
            {
                "attempt": attempt.number,
                "world_size": attempt.world_size,
                "ranks": attempt.ranks,
                "steps": attempt.job_state.time.num_steps,
                "seconds": attempt.job_state.time.total_seconds,
                "time": attempt.job_state.time.causes,
                "findings": [
                    {"first_step": s.first_step, "last_step": s.last_step, "finding": s.finding} for s in attempt.spans
                ],
            }
            for attempt in attempts
        ],
    }
