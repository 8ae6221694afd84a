"""`zmon steps`: export the step records of a job."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from zmon.cli.options import data_dir_option
from zmon.errors import UsageError, ZmonError
from zmon.format import counted, listed
from zmon.steplog import FOLDER, RunSteps, read_runs
from zmon.steplog.table import Table, write_json_lines, write_parquet

WRITERS = {".jsonl": write_json_lines, ".parquet": write_parquet}


@click.command()
@click.argument("job")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Path of the file to write: .parquet or .jsonl, or - for JSON lines on stdout.",
)
@click.option("--attempt", type=int, help="Number of the attempt to export. Default: all.")
@click.option("--rank", type=int, help="Rank to export. Default: all.")
@data_dir_option
def steps(job: str, out: Path, attempt: int | None, rank: int | None, data_dir: Path) -> None:
    """Export the step records of JOB to a file.

    The records are read from the step log that the agent of this node writes. If the job runs on several nodes, export
    on each of them.

    Exit codes: 0 exported, 1 the file cannot be written, 2 misuse, or the log has no such steps.
    """
    to_stdout = str(out) == "-"
    write = WRITERS.get(".jsonl" if to_stdout else out.suffix)
    if write is None:
        raise UsageError(f"cannot write {out}", "its format is unknown", "The name must end in .parquet or .jsonl")
    runs = _selected_runs(data_dir / FOLDER, job, attempt, rank)
    try:
        with _stdout() if to_stdout else _replacing(out) as file:
            num_written = write(Table.from_runs(runs), file)
    except BrokenPipeError:  # the reader of stdout has closed it: end in silence
        raise
    except OSError as error:
        raise ZmonError(f"cannot write {out}", error.strerror or str(error)) from error
    num_ranks = len({run.run.rank for run in runs})
    _print(f"{num_written:,} steps of {counted(num_ranks, 'rank')}{'' if to_stdout else f' in {out}'}")
    missing: Counter[int] = Counter()  # by rank
    earlier: Counter[int] = Counter()
    for run in runs:
        missing[run.run.rank] += run.missing
        earlier[run.run.rank] += run.missing_before
    _print_lost(missing, "are missing: the agent did not read them in time, or they are damaged")
    _print_lost(earlier, "were before the log begins")
    for run in runs:
        for line in run.damaged:
            _print(line)


def _selected_runs(directory: Path, job: str, attempt: int | None, rank: int | None) -> list[RunSteps]:
    """Return the runs of a job with this attempt and rank; None selects all. Raises UsageError if there are none."""
    jobs = sorted(path.name for path in directory.iterdir() if path.is_dir()) if directory.is_dir() else []
    if job not in jobs:
        why = f"it has the jobs {listed(jobs)}" if jobs else "it has no jobs"
        raise UsageError(f"no steps of job {job} in {directory}", why, "Does the agent run with this --data-dir?")
    runs, unusable = read_runs(directory / job)
    for line in unusable:
        _print(line)
    selected = [run for run in runs if attempt in (None, run.run.attempt) and rank in (None, run.run.rank)]
    if not selected:
        attempts = [*map(str, sorted({run.run.attempt for run in runs}))]
        ranks = [*map(str, sorted({run.run.rank for run in runs}))]
        raise UsageError(
            f"job {job} has no steps of this attempt and rank",
            f"the log has attempt {listed(attempts)}, rank {listed(ranks)}" if runs else "its files are damaged",
        )
    return selected


def _stdout() -> BinaryIO:
    """Return stdout for bytes, which closing the file leaves open."""
    return open(sys.stdout.fileno(), "wb", closefd=False)


@contextmanager
def _replacing(out: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `out` on success and is removed on failure."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(out)
    finally:
        with suppress(OSError):
            partial.unlink()


def _print_lost(numbers: Counter[int], reason: str) -> None:
    """Print how many steps of which ranks are not in the file, and why; print nothing if there are none."""
    parts = [f"{number:,} steps of rank {rank}" for rank, number in sorted(numbers.items()) if number]
    if parts:
        _print(f"{listed(parts)} {reason}")


def _print(line: str) -> None:
    """Print a message on stderr, because stdout may have the steps."""
    click.echo(f"zmon: {line}", err=True)
