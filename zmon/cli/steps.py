"""`zmon steps`: the step records of a job, for whoever wants to look at them with tools of their own."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from zmon.cli.options import data_dir_option
from zmon.errors import UsageError, ZmonError
from zmon.steplog import FOLDER, RunSteps, read_runs
from zmon.steplog.table import Table, write_json_lines, write_parquet

WRITERS = {".jsonl": write_json_lines, ".parquet": write_parquet}
_NAMED = 8  # jobs or ranks that a line names


@click.command()
@click.argument("job")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="FILE.parquet or FILE.jsonl; - for JSON lines on stdout.",
)
@click.option("--attempt", type=int, help="Only of this attempt.")
@click.option("--rank", type=int, help="Only of this rank.")
@data_dir_option
def steps(job: str, out: Path, attempt: int | None, rank: int | None, data_dir: Path) -> None:
    """Write a job's step records, as this node's agent logged them, to a file."""
    to_stdout = str(out) == "-"
    write = WRITERS.get(".jsonl" if to_stdout else out.suffix)
    if write is None:
        raise UsageError(f"cannot write {out}", "its name says no known format", "End it in .parquet or .jsonl")
    runs = _runs(data_dir / FOLDER, job, attempt, rank)
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) if to_stdout else _replacing(out) as file:
            written = write(Table.of(runs), file)
    except BrokenPipeError:  # whoever reads stdout has seen enough
        raise
    except OSError as error:
        raise ZmonError(f"cannot write {out}", error.strerror or str(error)) from error
    ranks = len({run.run.rank for run in runs})
    _tell(f"{written:,} steps of {ranks} {'rank' if ranks == 1 else 'ranks'}{'' if to_stdout else f' in {out}'}")
    _tell_lost("are missing: they were not read in time, or are damaged", ((run, run.missing) for run in runs))
    _tell_lost("were before the log begins", ((run, run.before) for run in runs))
    for line in (line for run in runs for line in run.damaged):
        _tell(line)


def _runs(folder: Path, job: str, attempt: int | None, rank: int | None) -> list[RunSteps]:
    jobs = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if job not in jobs:
        there = f"there are those of {_listed(jobs)}" if jobs else "there are none of any job"
        raise UsageError(f"no steps of job {job} in {folder}", there, "Does the agent run with this --data-dir?")
    runs, unusable = read_runs(folder / job)
    for line in unusable:
        _tell(line)
    wanted = [run for run in runs if attempt in (None, run.run.attempt) and rank in (None, run.run.rank)]
    if not wanted:
        attempts, ranks = sorted({run.run.attempt for run in runs}), sorted({run.run.rank for run in runs})
        raise UsageError(
            f"no such steps of job {job}",
            f"there are those of attempt {_listed(attempts)}, rank {_listed(ranks)}"
            if runs
            else "its files are damaged",
        )
    return wanted


@contextmanager
def _replacing(out: Path) -> Iterator[BinaryIO]:
    """A file beside it that takes its place once it is complete, and goes if it is not."""
    partial = out.with_name(f".{out.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(out)
    finally:
        with suppress(OSError):
            partial.unlink()


def _tell_lost(what: str, lost: Iterable[tuple[RunSteps, int]]) -> None:
    by_rank: Counter[int] = Counter()
    for run, number in lost:
        by_rank[run.run.rank] += number
    named = [f"{number:,} of rank {rank}" for rank, number in sorted(by_rank.items()) if number]
    if named:
        _tell(f"{_listed(named)}: these steps {what}")


def _listed(names: Iterable[object]) -> str:
    words = [str(name) for name in names]
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def _tell(line: str) -> None:
    click.echo(f"zmon: {line}", err=True)
