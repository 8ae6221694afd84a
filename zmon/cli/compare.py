"""`zmon compare`: compare the steps of two runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from rich.console import Console

from zmon.cli.options import data_dir_option, json_option
from zmon.cli.render.comparison import conditions, report
from zmon.offline.compare import Change, Gate, Series, compare, compare_gauges, series, steps_of


@click.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="THRESHOLD",
    help='Exit with 1 if a change exceeds this threshold and the noise, for example "step_seconds>+3%". Repeatable.',
)
@click.option("--job", metavar="ID", help="ID of the job to compare. Required if a file has several jobs.")
@json_option
@data_dir_option
def compare_command(
    before: str, after: str, fail_on: tuple[str, ...], job: str | None, as_json: bool, data_dir: Path
) -> None:
    """Compare the steps of two runs, A and B.

    The output shows which times and rates differ between A and B by more than noise.

    A and B are step logs (a .parquet or .jsonl file, or a directory with one file per node) or job IDs in the step log
    of this node's agent. Append @500..2000 to select steps, @2026-11-22T03:00..2026-11-22T03:30 to select a time.

    Exit codes: 0 compared, 1 a --fail-on threshold is exceeded, 2 misuse, 3 unknown (too few steps or too much noise).
    """
    gates = [Gate.parse(text) for text in fail_on]
    first, second = (series(source, steps_of(source, data_dir, job)) for source in (before, after))
    changes = [*compare(first, second), *compare_gauges(first, second)]
    results = [_Result(gate, *gate.judge(changes)) for gate in gates]
    if as_json:
        click.echo(msgspec.json.encode(_document(first, second, changes, results)).decode())
    else:
        Console(markup=False).print(report(first, second, changes), soft_wrap=False)
        words = {True: "ok", False: "failed", None: "unknown"}
        for result in results:
            click.echo(f"{words[result.passed]}: {result.why}")
    passed = [result.passed for result in results]
    if False in passed:
        sys.exit(1)
    step_time = changes[0]
    is_unknown = None in passed if results else step_time.result == "unknown"
    sys.exit(3 if is_unknown else 0)


class _Result(NamedTuple):
    """The result of one threshold of --fail-on."""

    gate: Gate
    passed: bool | None  # None: unknown
    why: str


def _document(before: Series, after: Series, changes: Sequence[Change], results: list[_Result]) -> dict[str, object]:
    """Return what `--json` prints."""
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
            for run in (before, after)
        ],
        "differ": conditions(before, after),
        "changes": changes,
        "fail_on": [{"threshold": str(gate), "passed": passed, "why": why} for gate, passed, why in results],
    }
