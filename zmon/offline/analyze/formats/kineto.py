"""Reads Chrome traces of torch.profiler (Kineto), one file per rank, as .json or .json.gz.

A step is a mark `ProfilerStep#N`, which the profiler writes at each call of `profiler.step()`. Communication is exposed
where nothing of the rank hides it: on a GPU no other kernel runs, on a CPU no operator and no DataLoader. An operator
that calls others hides nothing by itself, because it may wait inside. All other time of the step is self time.
Its phases are known as far as the profiler marks them; the rest is `other`. Source: torch/profiler/profiler.py.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from zmon.errors import UsageError
from zmon.format import listed, plain
from zmon.offline.analyze import files
from zmon.offline.analyze.formats.kineto_parts import TraceEvent, parts_of
from zmon.offline.analyze.intervals import Interval, partition, subtract, within
from zmon.offline.analyze.rows import StepTable, run_uid
from zmon.schema.measures import ns
from zmon.schema.names import OPS, in_order
from zmon.schema.steps import DURATION, START, RankSteps

MAX_BYTES = 2 << 30  # of one file, unpacked
MAX_RANKS = 1 << 17
_RANK = re.compile(r"rank[_-]?(\d{1,6})(?!\d)|(\d{1,6})$")
_SUFFIXES = (".gz", ".json", ".trace", ".pt")


class _Job(msgspec.Struct):
    rank: int | None = None
    world_size: int | None = None


class _Trace(msgspec.Struct):
    traceEvents: list[TraceEvent]  # the name in the file
    distributedInfo: _Job = msgspec.field(default_factory=_Job)
    host_name: str | None = None


def read(paths: Sequence[Path]) -> StepTable:
    """Read the traces of one job. Raises UsageError."""
    table = StepTable(files.job_id_of(paths[0]))
    origin: dict[int, Path] = {}
    sizes: Counter[int] = Counter()
    for path in paths:
        trace = _read(path)
        rank = _rank(path, trace.distributedInfo, alone=len(paths) == 1)
        if rank in origin:
            raise UsageError(f"{origin[rank]} and {path} are of rank {rank}", "", "Analyze one trace of each rank")
        origin[rank] = path
        if trace.distributedInfo.world_size:
            sizes[trace.distributedInfo.world_size] += 1
        of_rank = steps(trace.traceEvents).steps(run_uid((0, rank)))
        if not of_rank.num_rows:
            table.notes.append(f"{path} has no ProfilerStep marks: call profiler.step() in the training loop")
            continue
        table.hosts[0, rank] = plain(trace.host_name or "unknown")
        table.steps[0, rank] = of_rank
        table.has_exposed_time |= bool(of_rank.columns_of("calls"))
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


def _rank(path: Path, job: _Job, alone: bool) -> int:
    if job.rank is not None and 0 <= job.rank < MAX_RANKS:
        return job.rank
    stem = path
    while stem.suffix in _SUFFIXES:
        stem = stem.with_suffix("")
    match = _RANK.search(stem.name)
    if match is None and alone:
        return 0
    if match is None:
        raise UsageError(f"{path} does not say its rank", "", "Name the files rank0.json, rank1.json, …")
    return int(match[1] or match[2])


def steps(events: Sequence[TraceEvent]) -> RankSteps:
    parts = parts_of(events)
    windows = parts.device_steps if parts.device_steps.keys() == parts.steps.keys() else parts.steps
    in_time = sorted(windows.items(), key=lambda item: item[1])
    begins = [begin for _, (begin, _) in in_time]

    def split(intervals: Iterable[Interval]) -> list[list[Interval]]:
        """Return the parts of the intervals in each step."""
        by_step: list[list[Interval]] = [[] for _ in in_time]
        for begin, end in intervals:
            for index in range(max(bisect_right(begins, begin) - 1, 0), len(in_time)):
                if begins[index] >= end:
                    break
                by_step[index] += within([(begin, end)], *in_time[index][1])
        return by_step

    ops = in_order(parts.communication, OPS)
    communication = {op: split(parts.communication[op]) for op in ops}
    working = split(parts.working)
    phases = {phase: split(parts.phases[phase]) for phase in ("data", "h2d", "optimizer", "backward", "forward")}
    result = RankSteps()
    for index, (number, (begin, end)) in enumerate(in_time):
        if end <= begin:
            continue
        exposed = {op: subtract(each[index], working[index]) for op, each in communication.items()}
        first, *others = phases
        ordered = [phases[first][index], *exposed.values(), *(phases[phase][index] for phase in others), [(begin, end)]]
        seconds = partition(ordered)
        by_phase = dict(zip((first, *others, "other"), (seconds[0], *seconds[1 + len(ops) :]), strict=True))
        by_op = dict(zip(ops, seconds[1 : 1 + len(ops)], strict=True))
        sent, received = _sums(parts.sent, parts.steps.get(number, (begin, end)))
        numbers = {START: ns(begin), DURATION: ns(end - begin)}
        numbers |= {f"phase_{phase}": ns(value) for phase, value in by_phase.items() if value > 0}
        for op in ops:
            if each := communication[op][index]:
                numbers |= {
                    f"calls_{op}": len(each),
                    f"exposed_{op}": ns(by_op[op]),
                    f"inflight_{op}": ns(sum(e - b for b, e in each)),
                    f"bytes_sent_{op}": sent.get(op, 0),
                    f"bytes_received_{op}": received.get(op, 0),
                }
        result.add(number, numbers)
    return result


def _sums(collectives: Iterable[tuple[float, str, int, int]], step: Interval) -> tuple[dict[str, int], dict[str, int]]:
    sent: defaultdict[str, int] = defaultdict(int)
    received: defaultdict[str, int] = defaultdict(int)
    for begin, op, sent_bytes, received_bytes in collectives:
        if step[0] <= begin < step[1]:
            sent[op] += sent_bytes
            received[op] += received_bytes
    return sent, received
