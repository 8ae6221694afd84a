"""Reads the traces of github.com/ByteDance-Seed/StragglerAnalysis: a row per operation of a rank in a step.

Self time is the union of a rank's computing operations. Communication counts where no computation of the rank hides it.
Time without any operation is exposed time of an unknown op, because such a pause may be a wait that was not recorded.
The trace has one rank of each tensor-parallel group and some of the steps; ranks are numbered by their order in it.
Source of the columns: readme.md of that repository.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from zmon.errors import UsageError
from zmon.offline.analyze import files
from zmon.offline.analyze.intervals import Interval, partition
from zmon.offline.analyze.pipeline import Operation, PipelineReport, Schedule, Worker, report
from zmon.offline.analyze.rows import StepTable, run_uid
from zmon.schema.measures import ns
from zmon.schema.names import OPS, in_order
from zmon.schema.steps import DURATION, START, RankSteps

COLUMNS = frozenset({"dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id"})
MAX_OPERATIONS = 2_000_000  # about 2 GB of memory
PHASES = {"forward-compute": "forward", "backward-compute": "backward", "optimizer": "optimizer", "gc": "other"}
_OPS = {
    "forward-send": "send", "forward-recv": "recv", "backward-send": "send", "backward-recv": "recv",
    "params-all-gather": "all_gather", "grads-reduce-scatter": "reduce_scatter",
    "embedding-grads-all-reduce": "all_reduce", "layernorm-grads-all-reduce": "all_reduce",
    "separate-grads-all-reduce": "all_reduce", "optimizer-clip-main-grad": "all_reduce",
}  # fmt: skip

_UNKNOWN = "unknown"  # op of time without any operation, and of operations that zmon does not know

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e9)]


class _Row(msgspec.Struct):
    dp_rank: _Count
    stage: _Count
    rank: _Count
    step: _Count
    optype: str
    start_ts: _Seconds  # since the step began
    duration: _Seconds
    seq_id: _Count

    @property
    def end(self) -> float:
        return self.start_ts + self.duration


@dataclass(frozen=True)
class Trace:
    """The steps of a trace that have operations of every rank."""

    steps: StepTable
    workers: dict[int, Worker]  # by rank, as numbered in `steps`
    what_ifs: PipelineReport | None  # None: the operations cannot be replayed; a note says why


def read(paths: Sequence[Path]) -> Trace:
    """Read one trace, which may be in several files. Raises UsageError."""
    left_out: Counter[str] = Counter()
    by_step: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in _rows(paths, left_out):
        by_step[row.step].append(row)
    workers = _workers([row for rows in by_step.values() for row in rows])
    complete = {step: rows for step, rows in sorted(by_step.items()) if len({r.rank for r in rows}) == len(workers)}
    left_out["the step lacks some rank"] += sum(map(len, by_step.values())) - sum(map(len, complete.values()))
    if not complete:
        why = "; ".join(f"{count} rows left out: {reason}" for reason, count in (+left_out).most_common(3))
        raise UsageError(f"no steps in {', '.join(map(str, paths))}", why or "the trace is empty")
    job_ranks = sorted(workers)
    table = StepTable(paths[0].stem, left_out=+left_out, has_exposed_time=True)
    table.numbers = dict(enumerate(complete, 1))
    numbered = {rank: workers[job_rank] for rank, job_rank in enumerate(job_ranks)}
    for rank, worker in numbered.items():
        table.hosts[0, rank], table.roles[0, rank] = worker.name, str(worker.stage)
    if job_ranks != list(range(len(job_ranks))):
        example = next(rank for rank, job_rank in enumerate(job_ranks) if rank != job_rank)
        table.notes.append(
            f"the trace has {len(job_ranks)} ranks, numbered 0 to {len(job_ranks) - 1} by their order: "
            f"rank {example} is the job's rank {job_ranks[example]}"
        )
    _add_steps(table, list(complete.values()), {job_rank: rank for rank, job_rank in enumerate(job_ranks)})
    try:
        what_ifs = _what_ifs(list(complete.values()), workers, numbered)
    except ValueError as error:
        table.notes.append(f"no what-ifs: {error}")
        what_ifs = None
    return Trace(table, numbered, what_ifs)


def _rows(paths: Iterable[Path], left_out: Counter[str]) -> Iterable[_Row]:
    """Yield the rows that can be used, and count the others in `left_out`, by reason. Raises UsageError."""
    number = 0
    for path in paths:
        try:
            for raw in files.rows(path)[1]:
                number += 1
                if number > MAX_OPERATIONS:
                    why = f"it has more than {MAX_OPERATIONS:,} operations"
                    raise UsageError(f"{path} is too large", why, "Remove some of its steps")
                try:
                    row = msgspec.convert(raw, _Row)
                except msgspec.ValidationError as error:
                    left_out[str(error)] += 1
                    continue
                if math.isfinite(row.end):
                    yield row
                else:
                    left_out["start_ts or duration is not a number"] += 1
        except OSError as error:
            raise UsageError(f"cannot read {path}", error.strerror or str(error)) from error


def _workers(rows: Iterable[_Row]) -> dict[int, Worker]:
    """Return the position of each rank by its number in the job. Raises UsageError if a rank has two."""
    workers: dict[int, Worker] = {}
    for row in rows:
        worker = workers.setdefault(row.rank, Worker(row.rank, row.stage, row.dp_rank))
        if (worker.stage, worker.data_rank) != (row.stage, row.dp_rank):
            what, why = f"rank {row.rank} has two positions", f"{worker.name} and dp{row.dp_rank}-stage{row.stage}"
            raise UsageError(what, why, "Analyze the traces of two jobs separately")
    return workers


def _add_steps(table: StepTable, steps: Sequence[Sequence[_Row]], ranks: Mapping[int, int]) -> None:
    """Add the steps to the table, one after the other. `ranks`: the job's number of a rank → that in the table."""
    start = 0.0  # the trace has no time between its steps
    table_steps: defaultdict[int, RankSteps] = defaultdict(RankSteps)  # by rank
    for step, rows in enumerate(steps, 1):
        begin = min(row.start_ts for row in rows)
        duration = max(row.end for row in rows) - begin
        by_rank: defaultdict[int, list[_Row]] = defaultdict(list)
        for row in rows:
            by_rank[ranks[row.rank]].append(row)
        for rank, rank_rows in by_rank.items():
            if duration > 0:
                table_steps[rank].add(step, {START: ns(start), DURATION: ns(duration), **_numbers(rank_rows, duration)})
        start += duration
    table.steps = {(0, rank): rank_steps.steps(run_uid((0, rank))) for rank, rank_steps in table_steps.items()}


def _numbers(rows: Sequence[_Row], duration: float) -> dict[str, int]:
    """Return the self time by phase and the exposed time by op, as columns."""
    computing: defaultdict[str, list[Interval]] = defaultdict(list)
    communication: defaultdict[str, list[Interval]] = defaultdict(list)
    for row in rows:
        phase = PHASES.get(row.optype)
        part = communication[_OPS.get(row.optype, _UNKNOWN)] if phase is None else computing[phase]
        part.append((row.start_ts, row.end))
    ops = in_order(communication, OPS)
    seconds = partition([*computing.values(), *(communication[op] for op in ops)])
    exposed = dict(zip(ops, seconds[len(computing) :], strict=True))
    pause = duration - sum(seconds)
    if pause > 0:
        exposed[_UNKNOWN] = exposed.get(_UNKNOWN, 0.0) + pause
    return {
        **{f"phase_{phase}": ns(value) for phase, value in zip(computing, seconds, strict=False)},
        **{f"exposed_{op}": ns(value) for op, value in exposed.items()},
        **{f"calls_{op}": len(intervals) for op, intervals in communication.items()},
    }


def _what_ifs(
    steps: Sequence[Sequence[_Row]], workers: Mapping[int, Worker], numbered: Mapping[int, Worker]
) -> PipelineReport:
    """Return the what-ifs of the steps. Raises ValueError with the reason if the operations cannot be replayed."""
    unknown = sorted({row.optype for rows in steps for row in rows}.difference(PHASES, _OPS))
    if unknown:
        raise ValueError(f"zmon does not know the operations {', '.join(unknown)[:100]}")
    ranks = {worker.rank: rank for rank, worker in numbered.items()}
    schedules = []
    for rows in steps:
        operations = [Operation(ranks[r.rank], r.optype, r.start_ts, r.end, _group(r, workers[r.rank])) for r in rows]
        group_sizes = Counter(o.group for o in operations if o.kind.endswith(("-send", "-recv")))
        if any(size != 2 for size in group_sizes.values()):  # a send and its receive
            raise ValueError("a send has no receive: stages in several chunks (interleaved) cannot be replayed")
        schedules.append(Schedule(operations))
    return report(schedules, numbered, PHASES)


def _group(row: _Row, worker: Worker) -> Hashable | None:
    """Return a key that is equal for all operations that start together."""
    stage, data_rank = worker.stage, worker.data_rank
    match row.optype:
        case "forward-send" | "backward-recv":  # between this stage and the next one
            return row.optype.partition("-")[0], data_rank, stage, row.seq_id
        case "forward-recv" | "backward-send":
            return row.optype.partition("-")[0], data_rank, stage - 1, row.seq_id
        case "params-all-gather" | "grads-reduce-scatter" | "separate-grads-all-reduce":
            return row.optype, stage, row.seq_id
        case "embedding-grads-all-reduce":  # first and last stage of a pipeline
            return row.optype, data_rank, row.seq_id
        case "optimizer-clip-main-grad":  # the norm of all gradients
            return row.optype, row.seq_id
        case _:  # computation, and the all-reduce within a tensor-parallel group, of which one rank is recorded
            return None
