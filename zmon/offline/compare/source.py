"""Where the steps of a run are: in files of any origin, or in this node's step log under the name of the job.

FILE or FOLDER      .parquet or .jsonl; in a folder one from each node
JOB                 what `zmon steps` would export of it
…@FROM..TO          only these steps, or these times (ISO 8601, by each host's own clock); either end may be left out
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from zmon.errors import UsageError
from zmon.offline.analyze.rows import MAX_RECORDS, StepTable, read
from zmon.schema.step import StepRecord
from zmon.steplog import FOLDER, RunSteps, read_runs

_RANGE = re.compile(r"(.+)@([^@/]*)\.\.([^@/]*)")
_SUFFIXES = (".parquet", ".jsonl", ".json", ".ndjson")
_NAMED = 8


def steps_of(source: str, data_dir: Path, job: str | None = None) -> StepTable:
    """The steps that somebody means by that, of this job where it holds several. Raises UsageError: there are none."""
    found = _RANGE.fullmatch(source)
    log = _read(found[1] if found else source, data_dir, job)
    if found:
        every = [step for steps in log.records.values() for step in steps]
        within = _within(source, found[2], found[3])
        for key, steps in log.records.items():
            log.records[key] = {number: step for number, step in steps.items() if within(step)}
        if not any(log.records.values()):
            raise UsageError(f"no steps in {source}", f"there are steps {min(every):,} to {max(every):,}")
        for key in [key for key, steps in log.records.items() if not steps]:
            del log.records[key]
    return log


def _read(name: str, data_dir: Path, job: str | None) -> StepTable:
    path = Path(name)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            raise UsageError(
                f"no steps in {path}", "the folder has no .parquet or .jsonl file", "zmon steps writes them"
            )
        return read(files, job)
    return read([path], job) if path.suffix in _SUFFIXES or path.exists() else logged(name, data_dir / FOLDER)


def logged(job: str, folder: Path) -> StepTable:
    """The steps of a job that an agent logged into this folder. Raises UsageError: there are none."""
    """As the agent of this node logged them."""
    jobs = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if job not in jobs:
        there = f"it has those of {', '.join(jobs[:_NAMED])}" if jobs else "it has none of any job"
        raise UsageError(f"there is no file {job} and no job of that name in {folder}", there)
    runs, unusable = read_runs(folder / job)
    number = sum(run.num_boundaries() for run in runs)
    log = StepTable(job, every=1 << max(0, math.ceil(math.log2(max(number, 1) / MAX_RECORDS))), blames=True)
    log.left_out.update(unusable)
    for run, attempt in zip(runs, _starts(runs), strict=True):
        key = attempt, run.run.rank
        log.hosts[key] = run.run.host
        for start, record, reported in run.steps():
            if record.step % log.every == 0:
                log.records[key][record.step] = replace(record, start=start)
            if reported:  # of the last step that is kept: a job may tell it in others only
                log.reported[key].setdefault(record.step - record.step % log.every, {}).update(reported)
    log.left_out["its place in the log is damaged, or it was not read in time"] = sum(run.missing for run in runs)
    log.left_out = +log.left_out
    if not any(log.records.values()):
        why = "; ".join(unusable[:2]) or "no rank has ended two steps yet"
        raise UsageError(f"no steps of job {job} in {folder}", why)
    return log


def _starts(runs: Sequence[RunSteps]) -> list[int]:
    """A number for each start: the attempt, unless the job was launched several times, each time with the same."""
    seen: Counter[tuple[int, int]] = Counter()
    launches = []
    for run in runs:  # a rank's in the order of their starts
        key = run.run.attempt, run.run.rank
        launches.append((seen[key], run.run.attempt))
        seen[key] += 1
    if not any(launch for launch, _ in launches):
        return [attempt for _, attempt in launches]
    numbers = {start: number for number, start in enumerate(sorted(set(launches)))}
    return [numbers[start] for start in launches]


def _within(source: str, begin: str, end: str) -> Callable[[StepRecord], bool]:
    """Which steps a range means; its ends belong to it."""
    given = [edge for edge in (begin, end) if edge]
    if all(edge.isdecimal() for edge in given):
        first, last = int(begin or 0), int(end) if end else math.inf
        return lambda step: first <= step.step <= last
    try:
        earliest, latest = (
            datetime.fromisoformat(edge).timestamp() if edge else unbounded
            for edge, unbounded in ((begin, -math.inf), (end, math.inf))
        )
    except ValueError as error:
        examples = "Steps are …@500..2000, times …@2026-11-22T03:00..2026-11-22T03:30"
        raise UsageError(f"cannot read the range of {source}", str(error), examples) from error
    return lambda step: earliest <= step.start <= latest
