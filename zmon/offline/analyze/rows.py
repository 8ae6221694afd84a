"""Reads a step log, from zmon or another tool: a row per rank and step, as Parquet or JSON lines.

The columns are those that `zmon steps` writes (zmon/steplog/table.py); a missing value is unknown. A row that cannot be
used is left out and counted by its reason. If a log is too long for memory, only every second step is read, or every
fourth, …: the same steps of every rank.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zmon.errors import UsageError
from zmon.offline.analyze import files
from zmon.schema.limits import MAX_WORLD_SIZE
from zmon.schema.measures import NS, measure_of, ns
from zmon.schema.rank import RankState
from zmon.schema.steps import DURATION, START, RankSteps, Steps

MAX_ROWS = 500_000  # a few hundred MB of memory
_LIMIT = 1 << 63  # bytes or seconds; a value beyond it, or one that is not a number, is unknown
_REPORT, _PHASE, _EXPOSED = "report_", "phase_", "exposed_"  # prefixes of the columns of gauges, phases and ops
UNKNOWN_OP = f"{_EXPOSED}unknown"  # exposed time if the log has only phases
_ROUNDING_RATIO = 0.01  # share of a step by which the sum of its parts may differ through rounding

Key = tuple[int, int]  # attempt, rank


@dataclass
class StepTable:
    """The steps of one job, oldest first for each rank. They start in unix time, by the clock of the rank's host."""

    job_id: str
    steps: dict[Key, Steps] = field(default_factory=dict)
    hosts: dict[Key, str] = field(default_factory=dict)
    # step → name → value of the gauges that the job reported
    reported: defaultdict[Key, dict[int, dict[str, float]]] = field(default_factory=lambda: defaultdict(dict))
    left_out: Counter[str] = field(default_factory=Counter)  # number of rows by reason
    every: int = 1  # only steps whose number is a multiple of `every` were read
    has_exposed_time: bool = False  # at least one rank separates exposed time from self time
    roles: dict[Key, str] = field(default_factory=dict)  # the pipeline stage of a rank, if the log has it
    numbers: dict[int, int] = field(default_factory=dict)  # step here → number in the trace, if they differ
    notes: list[str] = field(default_factory=list)  # a line for each thing that the log lacks or that was assumed

    def attempts(self) -> list[int]:
        """Return the numbers of the attempts, ascending."""
        return sorted({attempt for attempt, _ in self.steps})

    def ranks(self, attempt: int) -> dict[int, Steps]:
        """Return the steps of an attempt by rank, rank 0 first."""
        return {rank: steps for (number, rank), steps in sorted(self.steps.items()) if number == attempt}

    def number(self, step: int) -> int:
        """Return the number of the step in the trace, which may have only some of the job's steps."""
        return self.numbers.get(step, step)


def stride(num_rows: int) -> int:
    """Return the smallest power of two n for which the rows of every n-th step have room in memory."""
    return 1 << max(0, math.ceil(math.log2(max(num_rows, 1) / MAX_ROWS)))


def read(paths: Sequence[Path], job_id: str | None = None) -> StepTable:
    """Read the log of one job from one or several files, such as one from each node.

    Raises UsageError if a file cannot be read, or if the files have several jobs and `job_id` is None.
    """
    opened = [(path, *files.rows(path)) for path in paths]
    log = StepTable(job_id or "", every=stride(sum(num_rows for _, num_rows, _ in opened)))
    jobs: set[str] = set()
    ranks: defaultdict[Key, RankSteps] = defaultdict(RankSteps)
    for path, _, rows in opened:
        try:
            for row in rows:
                job = str((row.get("job_id") if row else None) or "")  # a number in the logs of some tools
                jobs |= {job} if job else set()
                if job_id is None or job in ("", job_id):  # a row without a job ID belongs to the selected job
                    _add_row(log, ranks, row)
        except OSError as error:
            raise UsageError(f"cannot read {path}", error.strerror or str(error)) from error
    names = ", ".join(sorted(jobs)[:8])
    if job_id is None and len(jobs) > 1:
        raise UsageError(f"the log has the steps of {len(jobs)} jobs", names, "Choose one with --job")
    log.steps = {key: steps.steps(run_uid(key)) for key, steps in ranks.items()}
    if not log.steps:
        why = "; ".join(f"{count} rows left out: {reason}" for reason, count in log.left_out.most_common(3))
        which = f" of job {job_id}" if job_id else ""
        raise UsageError(f"no steps{which}", why or (f"the log has the jobs {names}" if jobs else "the log is empty"))
    log.job_id = job_id or next(iter(jobs), "unnamed")
    return log


def run_uid(key: Key) -> str:
    """Return a name for one run of a rank, as a hub would have it."""
    attempt, rank = key
    return f"{attempt}-{rank}"


def _add_row(log: StepTable, ranks: Mapping[Key, RankSteps], row: Mapping[str, Any] | None) -> None:
    """Add a row to the steps of its rank, and the rest of it to the log; count it in the log if it cannot be used."""
    if row is None:
        log.left_out["not a row"] += 1
        return
    try:
        rank, step, duration = int(row["rank"]), int(row["step"]), float(row["duration"])
        attempt, start = int(row.get("attempt") or 0), float(row.get("start") or 0.0)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        wrong = "rank, step, start or duration is not a number"
        log.left_out[f"no {error}" if isinstance(error, KeyError) else wrong] += 1
        return
    if not (NS <= duration < _LIMIT and abs(start) < _LIMIT and rank >= 0):
        log.left_out["rank, start or duration is not possible"] += 1
        return
    if rank >= MAX_WORLD_SIZE:  # it is damage, and every lower rank costs memory
        log.left_out[f"rank is beyond {MAX_WORLD_SIZE:,}"] += 1
        return
    if step % log.every == 0:
        key = attempt, rank
        log.hosts.setdefault(key, str(row.get("host") or "unknown"))
        if role := row.get("role"):
            log.roles[key] = str(role)
        numbers, has_exposed_time = _numbers(row, duration)
        log.has_exposed_time |= has_exposed_time
        ranks[key].add(step, {START: ns(start), **numbers})
        reported = {name[len(_REPORT) :]: value for name, value in row.items() if name.startswith(_REPORT)}
        if gauges := {name: float(value) for name, value in reported.items() if _is_number(value)}:
            log.reported[key][step] = gauges


def _numbers(row: Mapping[str, Any], duration: float) -> tuple[dict[str, int], bool]:
    """Return the columns of a row that are known, and True if it has exposed time.

    Phases and exposed ops sum to the step. Time that the row does not name is the phase `other`, or exposed time of an
    unknown op if the row has phases only.
    """
    numbers = {DURATION: ns(duration)}
    sums = {"phase": 0.0, "exposed": 0.0}
    for name in row:
        known = measure_of(name)
        if known is None or name == DURATION or (value := _value(row[name])) is None:
            continue
        measure = known.measure
        numbers[name] = ns(value) if measure.unit == "seconds" else int(value)
        if measure.name in sums:
            sums[measure.name] += value
    has_ops = any(name.startswith(_EXPOSED) for name in numbers)
    unnamed = duration - sum(sums.values())
    if unnamed > _ROUNDING_RATIO * duration:
        part = "phase_other" if has_ops or not any(name.startswith(_PHASE) for name in numbers) else UNKNOWN_OP
        numbers[part] = numbers.get(part, 0) + ns(unnamed)
    return numbers, has_ops or UNKNOWN_OP in numbers


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < _LIMIT)


def _value(value: object) -> float | None:
    return value if isinstance(value, int | float) and 0 <= value < _LIMIT else None


def rank_state(job_id: str, attempt: int, rank: int, world_size: int, host: str, role: str = "") -> RankState:
    """Return the state of a rank that trains and is never overdue."""
    return RankState(
        job_id=job_id, attempt=attempt, run_uid=run_uid((attempt, rank)), start=0.0, rank=rank, local_rank=rank,
        world_size=world_size, host=host, pid=0, device="unknown", backend=None, launcher="",
        restart_count=attempt, max_restarts=None, labels={}, alive=True, process_state=None, exit_status=None,
        gone_seconds=None, stopped_seconds=None, activity="train", activity_seconds=0.0, phase="other", step=0,
        step_seconds=0.0, state_seconds=0.0, in_flight=None, sequences={}, lease_seconds=None, overdue_seconds=0.0,
        steps=0, step_seconds_total=0.0, totals=None, report={}, last_words=None,
        last_step_time=None, last_checkpoint_time=None, overhead_seconds=0.0, dropped_records=0, resident_bytes=None,
        role=role,
    )  # fmt: skip
