"""Reads the steps of a run from files, or from this node's step log by job ID.

FILE or DIRECTORY   a .parquet or .jsonl file, or a directory with one file per node
JOB                 a job ID: the steps that `zmon steps` would export
…@FROM..TO          only these steps, or these times (ISO 8601, by the clock of each host); either end may be omitted
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from zmon.errors import UsageError
from zmon.format import listed
from zmon.offline.analyze.rows import StepTable, read, stride
from zmon.schema.measures import NS
from zmon.schema.steps import START, STEP, Steps
from zmon.steplog import FOLDER, RunSteps, read_runs
from zmon.steplog.format import Run

_RANGE = re.compile(r"(?P<name>.+)@(?P<begin>[^@/]*)\.\.(?P<end>[^@/]*)")
_SUFFIXES = (".parquet", ".jsonl", ".json", ".ndjson")


def steps_of(source: str, data_dir: Path, job: str | None = None) -> StepTable:
    """Return the steps of a source, of `job` if it has several. Raises UsageError if there are none."""
    match = _RANGE.fullmatch(source)
    log = _read(match["name"] if match else source, data_dir, job)
    if match:
        numbers = [step for steps in log.steps.values() for step in steps.column(STEP)]
        in_range = _range_test(source, match["begin"], match["end"])
        chosen = {key: steps.select(in_range(steps)) for key, steps in log.steps.items()}
        log.steps = {key: steps for key, steps in chosen.items() if steps.num_rows}
        for key, reported in log.reported.items():
            selected = log.steps[key].column(STEP) if key in log.steps else range(0)
            log.reported[key] = {
                step: gauges for step, gauges in reported.items() if selected and selected[0] <= step <= selected[-1]
            }
        if not log.steps:
            raise UsageError(f"no steps in {source}", f"it has steps {min(numbers):,} to {max(numbers):,}")
    return log


def _read(name: str, data_dir: Path, job: str | None) -> StepTable:
    """Return the steps of a file, of a directory, or of a job in this node's step log. Raises UsageError."""
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            why = "the directory has no .parquet or .jsonl file"
            raise UsageError(f"no steps in {path}", why, "Write them with zmon steps")
        return read(files, job)
    return read([path], job) if path.suffix in _SUFFIXES or path.exists() else read_log(name, data_dir / FOLDER)


def read_log(job: str, folder: Path) -> StepTable:
    """Return the steps of a job that an agent logged into this directory. Raises UsageError if there are none."""
    jobs = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if job not in jobs:
        why = f"it has the jobs {listed(jobs)}" if jobs else "it has no jobs"
        raise UsageError(f"there is no file {job}, and no job with this ID in {folder}", why)
    runs, unusable = read_runs(folder / job)
    log = StepTable(job, every=stride(sum(run.num_boundaries() for run in runs)), has_exposed_time=True)
    log.left_out.update(unusable)
    for run, attempt in zip(runs, _launch_numbers(runs), strict=True):
        key = attempt, run.run.rank
        log.hosts[key] = run.run.host
        parts = []
        for steps, reports in run.chunks():
            numbers = steps.column(STEP)
            parts.append(steps.select([row for row, step in enumerate(numbers) if step % log.every == 0]))
            for step, reported in zip(numbers, reports, strict=True):
                if reported:  # stored under the last step that was read, because a job may report only in other steps
                    log.reported[key].setdefault(step - step % log.every, {}).update(reported)
        if (joined := Steps.join(parts)).num_rows:
            log.steps[key] = joined
    log.left_out["damaged in the log, or not read in time by the agent"] = sum(run.missing for run in runs)
    log.left_out = +log.left_out
    if not log.steps:
        why = "; ".join(unusable[:2]) or "no rank has completed two steps yet"
        raise UsageError(f"no steps of job {job} in {folder}", why)
    return log


def _launch_numbers(runs: Sequence[RunSteps]) -> list[int]:
    """Return a number for the launch of each run: the attempt, unless several launches have the same attempt."""
    repeats: dict[str, int] = {}  # run uid → number of launches before it with the same attempt
    for attempt in {run.run.attempt for run in runs}:
        of_attempt = sorted((run.run for run in runs if run.run.attempt == attempt), key=lambda run: run.start)
        begins = _launch_begins(of_attempt)
        repeats |= {run.run_uid: bisect_right(begins, index) for index, run in enumerate(of_attempt)}
    launches = [(repeats[run.run.run_uid], run.run.attempt) for run in runs]
    if not any(repeat for repeat, _ in launches):
        return [attempt for _, attempt in launches]
    numbers = {launch: number for number, launch in enumerate(sorted(set(launches)))}
    return [numbers[launch] for launch in launches]


def _launch_begins(runs: Sequence[Run]) -> list[int]:
    """Return where the second and each later launch begins in the runs of one attempt, in the order of their starts.

    A launch begins between two runs of the same rank, where two starts in a row are furthest apart. Any rank may lack
    its run of a launch: the agent has deleted its steps, or it failed before its first one.
    """
    begins: list[int] = []
    latest: dict[int, int] = {}  # rank → index of its run
    for index, run in enumerate(runs):
        earlier = latest.get(run.rank)
        if earlier is not None and (not begins or begins[-1] <= earlier):
            between = range(earlier + 1, index + 1)
            begins.append(max(between, key=lambda later: runs[later].start - runs[later - 1].start))
        latest[run.rank] = index
    return begins


def _range_test(source: str, begin: str, end: str) -> Callable[[Steps], list[int]]:
    """Return a function that returns the rows in the range; both ends are included."""
    edges = [edge for edge in (begin, end) if edge]
    if all(edge.isdecimal() for edge in edges):
        first = int(begin or 0)
        last = int(end) if end else math.inf
        return lambda steps: [row for row, step in enumerate(steps.column(STEP)) if first <= step <= last]
    try:
        earliest, latest = (
            datetime.fromisoformat(edge).timestamp() if edge else unbounded
            for edge, unbounded in ((begin, -math.inf), (end, math.inf))
        )
    except ValueError as error:
        examples = "Write steps as …@500..2000, times as …@2026-11-22T03:00..2026-11-22T03:30"
        raise UsageError(f"cannot read the range of {source}", str(error), examples) from error
    return lambda steps: [row for row, start in enumerate(steps.column(START)) if earliest <= start * NS <= latest]
