"""`zmon compare`: is this run slower than that one, and where?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console

from zmon.cli.options import data_dir_option
from zmon.cli.render.comparison import conditions, report
from zmon.offline.compare import Change, Gate, Series, compare, compare_gauges, series, steps_of


@click.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--fail-on", multiple=True, help='Exit with 1 if it holds beyond chance: "step_seconds>+3%".')
@click.option("--job", help="Which one, where files hold several.")
@click.option("--json", "as_json", is_flag=True)
@data_dir_option
def compare_command(
    before: str, after: str, fail_on: tuple[str, ...], job: str | None, as_json: bool, data_dir: Path
) -> None:
    """Compare two runs step by step: what takes longer in B than in A, beyond chance.

    A and B are step logs (a .parquet or .jsonl file, or a folder with one of each node), or jobs whose steps the agent
    of this node logged; with @500..2000 only these steps, with @2026-11-22T03:00..2026-11-22T03:30 only that time.

    Exit code 0: compared, 1: a --fail-on holds, 3: too few or too noisy to tell.
    """
    gates = [Gate.parse(text) for text in fail_on]
    ours, theirs = (series(source, steps_of(source, data_dir, job)) for source in (before, after))
    changes = [*compare(ours, theirs), *compare_gauges(ours, theirs)]
    judged = [gate.judge(changes) for gate in gates]
    if as_json:
        click.echo(msgspec.json.encode(told(ours, theirs, changes, [*zip(gates, judged, strict=True)])).decode())
    else:
        Console().print(report(ours, theirs, changes), soft_wrap=False)
        for passed, line in judged:
            click.echo(f"{'ok' if passed else 'failed' if passed is False else 'unknown'}: {line}")
    if any(passed is False for passed, _ in judged):
        sys.exit(1)
    unknown = any(passed is None for passed, _ in judged) if judged else changes[0].verdict == "unknown"
    sys.exit(3 if unknown else 0)


def told(
    ours: Series, theirs: Series, changes: Sequence[Change], judged: Sequence[tuple[Gate, tuple[bool | None, str]]]
) -> dict[str, object]:
    """For programs."""
    return {
        "schema": 1,
        "runs": [
            {
                "name": run.name,
                "job_id": run.job_id,
                "attempt": run.attempt,
                "world_size": run.world_size,
                "steps": len(run.steps),
                "caveats": run.caveats,
            }
            for run in (ours, theirs)
        ],
        "differ": conditions(ours, theirs),
        "changes": changes,
        "fail_on": [{"threshold": str(gate), "passed": passed, "why": why} for gate, (passed, why) in judged],
    }
