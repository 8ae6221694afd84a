"""Reads Chrome traces of torch.profiler (Kineto), one file per rank, as .json or .json.gz.

A step is a mark `ProfilerStep#N`, which the profiler writes at each call of `profiler.step()`. Communication is exposed
where nothing of the rank hides it: on a GPU no other kernel runs, on a CPU no operator and no DataLoader. An operator
that calls others hides nothing by itself, because it may wait inside. All other time of the step is self time.
Its phases are known as far as the profiler marks them; the rest is `other`. Source: torch/profiler/profiler.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from zmon.errors import UsageError
from zmon.format import listed, plain
from zmon.offline.analyze import files
from zmon.offline.analyze.formats.kineto_parts import TraceEvent, Transfer, parts_of
from zmon.offline.analyze.intervals import Interval, partition, subtract, within
from zmon.offline.analyze.rows import StepTable, run_uid
from zmon.schema.measures import ns
from zmon.schema.names import OPS, in_order
from zmon.schema.steps import DURATION, START, RankSteps

MAX_BYTES = 2 << 30  # of one file, unpacked
MAX_RANKS = 1 << 17
_RANK = re.compile(r"rank[_-]?(\d{1,6})(?!\d)|(?<!\d)(\d{1,6})$")  # a longer number is a time
_SUFFIXES = (".gz", ".json", ".trace", ".pt")
_PHASES = ("data", "h2d", "optimizer", "backward", "forward")  # where they overlap, the earlier one counts


class _Job(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None


class _Trace(msgspec.Struct):
    """A trace. The fields have the names of the file."""

    traceEvents: list[TraceEvent]
    distributedInfo: _Job = msgspec.field(default_factory=_Job)
    host_name: str | None = None


def read(paths: Sequence[Path]) -> StepTable:
    """Read the traces of one job. Raises UsageError."""
    table = StepTable(files.job_id_of(paths[0]))
    origin: dict[int, Path] = {}
    sizes: Counter[int] = Counter()
    for path in paths:
        trace = _read(path)
        rank = _rank(path, trace.distributedInfo, is_alone=len(paths) == 1)
        if rank in origin:
            raise UsageError(f"{origin[rank]} and {path} are of rank {rank}", "", "Analyze one trace of each rank")
        origin[rank] = path
        if trace.distributedInfo.world_size:
            sizes[trace.distributedInfo.world_size] += 1
        rank_steps = steps(trace.traceEvents).steps(run_uid((0, rank)))
        if not rank_steps.num_rows:
            table.notes.append(f"{path} has no ProfilerStep marks: call profiler.step() in the training loop")
            continue
        table.hosts[0, rank] = plain(trace.host_name or "unknown")
        table.steps[0, rank] = rank_steps
        table.has_exposed_time |= bool(rank_steps.columns_of("calls"))
    if len(sizes) > 1:
        jobs = ", ".join(f"{size} ranks" for size in sorted(sizes))
        raise UsageError("the traces are of several jobs", jobs, "Analyze those of one job")
    if not table.steps:
        raise UsageError("no steps", table.notes[0] if table.notes else "the traces are empty")
    _number_ranks(table, next(iter(sizes), len(origin)))
    return table


def _number_ranks(table: StepTable, world_size: int) -> None:
    """Number the ranks by their order if only some of the job's ranks have a trace."""
    ranks = sorted(rank for _, rank in table.steps)
    if len(ranks) == world_size:
        return
    numbers = listed([str(rank) for rank in ranks], 16)
    table.notes.append(
        f"traces of {len(ranks)} of {world_size} ranks: {numbers}; they are numbered 0 to {len(ranks) - 1} by their "
        "order, and a rank without a trace may be slower than all of them"
    )
    by_rank, hosts = table.steps, table.hosts
    table.steps = {(0, number): by_rank[0, rank] for number, rank in enumerate(ranks)}
    table.hosts = {(0, number): hosts[0, rank] for number, rank in enumerate(ranks)}


def _read(path: Path) -> _Trace:
    """Return the trace in one file. Raises UsageError."""
    with files.unpacked(path) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"cannot read {path}", f"it has more than {MAX_BYTES >> 30} GiB", "Profile fewer steps")
    try:
        if data.lstrip()[:1] == b"[":
            return _Trace(msgspec.json.decode(data, type=list[TraceEvent]))
        return msgspec.json.decode(data, type=_Trace)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"cannot read {path}", f"it is not a Chrome trace: {str(error)[:200]}") from error


def _rank(path: Path, job: _Job, is_alone: bool) -> int:
    """Return the rank of a trace, from the trace or else from the name of its file; `is_alone`: it is the only one."""
    if job.rank is not None and 0 <= job.rank < MAX_RANKS:
        return job.rank
    stem = path
    while stem.suffix in _SUFFIXES:
        stem = stem.with_suffix("")
    match = _RANK.search(stem.name)
    if match is None and is_alone:
        return 0
    if match is None:
        raise UsageError(f"{path} does not say its rank", "", "Name the files rank0.json, rank1.json, …")
    return int(match[1] or match[2])


def steps(events: Sequence[TraceEvent]) -> RankSteps:
    """Return the steps of the rank whose trace has these events."""
    parts = parts_of(events)
    windows = parts.device_steps if parts.device_steps.keys() == parts.steps.keys() else parts.steps
    in_time = sorted(windows.items(), key=lambda item: item[1])
    intervals = [interval for _, interval in in_time]
    communication = {op: _by_step(parts.communication[op], intervals) for op in in_order(parts.communication, OPS)}
    phases = {phase: _by_step(parts.phases[phase], intervals) for phase in _PHASES}
    working = _by_step(parts.working, intervals)
    result = RankSteps()
    for index, (number, (begin, end)) in enumerate(in_time):
        if end <= begin:
            continue
        collectives = {op: by_step[index] for op, by_step in communication.items() if by_step[index]}
        exposed = {op: subtract(spans, working[index]) for op, spans in collectives.items()}
        seconds = _seconds_of_parts({phase: by_step[index] for phase, by_step in phases.items()}, exposed, (begin, end))
        numbers = {START: ns(begin), DURATION: ns(end - begin)}
        numbers |= {column: ns(value) for column, value in seconds.items()}
        numbers |= _collective_numbers(collectives, parts.transfers, parts.steps.get(number, (begin, end)))
        result.add(number, numbers)
    return result


def _by_step(spans: Iterable[Interval], steps: Sequence[Interval]) -> list[list[Interval]]:
    """Return the parts of the spans in each of these steps, which are in order of time."""
    begins = [begin for begin, _ in steps]
    by_step: list[list[Interval]] = [[] for _ in steps]
    for begin, end in spans:
        for index in range(max(bisect_right(begins, begin) - 1, 0), len(steps)):
            if begins[index] >= end:
                break
            by_step[index] += within([(begin, end)], *steps[index])
    return by_step


def _seconds_of_parts(
    phases: Mapping[str, Sequence[Interval]], exposed: Mapping[str, Sequence[Interval]], step: Interval
) -> dict[str, float]:
    """Return the seconds of a step by column. They sum to the step; its unmarked time is the phase `other`.

    `exposed` has the ops that ran. Where parts overlap, loading counts first, then exposed communication, then the
    other phases. A phase without time has no column.
    """
    loading, *later_phases = _PHASES
    parts = {f"phase_{loading}": phases[loading], **{f"exposed_{op}": spans for op, spans in exposed.items()}}
    parts |= {f"phase_{name}": phases[name] for name in later_phases}
    parts["phase_other"] = [step]
    by_column = dict(zip(parts, partition(parts.values()), strict=True))
    return {column: value for column, value in by_column.items() if value > 0 or column.startswith("exposed_")}


def _collective_numbers(
    collectives: Mapping[str, Sequence[Interval]], transfers: Iterable[Transfer], step: Interval
) -> dict[str, int]:
    """Return calls, time in flight and bytes of the ops that ran in a step, by column."""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for transfer in transfers:
        if step[0] <= transfer.begin < step[1]:
            sent[transfer.op] += transfer.sent_bytes
            received[transfer.op] += transfer.received_bytes
    numbers: dict[str, int] = {}
    for op, spans in collectives.items():
        numbers |= {
            f"calls_{op}": len(spans),
            f"inflight_{op}": ns(sum(end - begin for begin, end in spans)),
            f"bytes_sent_{op}": sent[op],
            f"bytes_received_{op}": received[op],
        }
    return numbers
