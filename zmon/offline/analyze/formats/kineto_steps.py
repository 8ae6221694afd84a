"""Turn the events of one rank's Chrome trace into step records. Pure; the events are in microseconds."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from zmon.offline.analyze.intervals import Interval, partition, subtract, within
from zmon.schema.names import OPS, in_order
from zmon.schema.step import Measures, OpTotals, StepRecord

_US = 1e-6
_STEP = re.compile(r"ProfilerStep#(\d{1,12})$")
_BACKWARD = "autograd::engine::evaluate_function"
# They issue communication or wait for it.
_LAUNCHES = ("c10d::", "record_param_comms", "c10d_functional::", "_c10d_functional::")
_ITEM_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "short": 2, "half": 2, "bfloat16": 2,
    "int": 4, "float": 4, "long": 8, "double": 8,
}  # fmt: skip
_OP_WORDS = {op.replace("_", ""): op for op in OPS}


class Event(msgspec.Struct):
    """One event of a Chrome trace; fields that are not needed are left out."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int | float | str | None = None
    args: msgspec.Raw = msgspec.Raw()

    @property
    def interval(self) -> Interval:
        """Begin and end in seconds."""
        return self.ts * _US, (self.ts + self.dur) * _US


class _CollectiveArguments(msgspec.Struct):
    name: str = msgspec.field(name="Collective name", default="")
    sent: int = msgspec.field(name="In msg nelems", default=0)
    received: int = msgspec.field(name="Out msg nelems", default=0)
    dtype: str = ""


@dataclass
class _Parts:
    """The intervals of one rank by what it did in them."""

    steps: dict[int, Interval] = field(default_factory=dict)
    device_steps: dict[int, Interval] = field(default_factory=dict)
    communication: defaultdict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    working: list[Interval] = field(default_factory=list)  # hides communication
    phases: defaultdict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    sent: list[tuple[float, str, int, int]] = field(default_factory=list)  # begin, op, bytes sent, bytes received


def steps(events: Sequence[Event]) -> list[StepRecord]:
    """Return the steps of one rank, by number."""
    spans = sorted((e for e in events if e.ph == "X" and e.dur >= 0), key=lambda e: (e.ts, -e.dur))
    parts = _on_device(spans) if any(e.cat == "kernel" for e in spans) else _on_cpu(spans)
    parts.sent = list(_bytes(spans))
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
    records = []
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
        totals = {
            op: OpTotals(len(each), by_op[op], sum(e - b for b, e in each), sent.get(op, 0), received.get(op, 0))
            for op in ops
            if (each := communication[op][index])
        }
        measures = Measures({phase: value for phase, value in by_phase.items() if value > 0}, totals)
        records.append(StepRecord(number, begin, end - begin, measures))
    return sorted(records, key=lambda record: record.step)


def _on_cpu(spans: Sequence[Event]) -> _Parts:
    """Return the parts of a rank without kernels: gloo marks its operations on threads of its own."""
    parts = _Parts()
    for event, is_leaf in _with_leaves(spans):
        if event.name.startswith("gloo:"):
            parts.communication[op_name(event.name)].append(event.interval)
        elif not event.name.startswith(_LAUNCHES) and "wait_tensor" not in event.name:
            if is_leaf and event.cat == "cpu_op":
                parts.working.append(event.interval)
            _mark(parts, event)
    parts.working += parts.phases["data"]
    return parts


def _on_device(spans: Sequence[Event]) -> _Parts:
    """Return the parts of a rank with kernels. The profiler does not mark which kernels are backward."""
    parts = _Parts()
    for event in spans:
        if event.cat == "kernel":
            if event.name.startswith("nccl"):
                parts.communication[op_name(_arguments(event).name or event.name)].append(event.interval)
            else:
                parts.working.append(event.interval)
        elif event.cat == "gpu_memcpy" and "HtoD" in event.name:
            parts.phases["h2d"].append(event.interval)
        elif event.cat == "gpu_user_annotation":
            if match := _STEP.match(event.name):
                parts.device_steps[int(match[1])] = event.interval
            elif event.name.startswith("Optimizer.step"):
                parts.phases["optimizer"].append(event.interval)
        elif event.cat == "user_annotation" and (
            event.name.startswith("enumerate(DataLoader)") or _STEP.match(event.name)
        ):
            _mark(parts, event)
    busy = [*parts.working, *(each for intervals in parts.communication.values() for each in intervals)]
    parts.phases["data"] = subtract(parts.phases["data"], busy)  # the loader costs time while the GPU has no work
    parts.phases["h2d"] = subtract(parts.phases["h2d"], busy)
    return parts


def _mark(parts: _Parts, event: Event) -> None:
    """Add the event to its phase."""
    name = event.name
    if match := _STEP.match(name):
        parts.steps[int(match[1])] = event.interval
    elif name.startswith("enumerate(DataLoader)"):
        parts.phases["data"].append(event.interval)
    elif name.startswith("Optimizer."):
        parts.phases["optimizer"].append(event.interval)
    elif name.startswith(_BACKWARD):
        parts.phases["backward"].append(event.interval)
    elif event.cat in ("cpu_op", "user_annotation"):
        parts.phases["forward"].append(event.interval)


def _with_leaves(spans: Sequence[Event]) -> Iterator[tuple[Event, bool]]:
    """Yield each event, and True if no other event of its thread lies within it."""
    following: dict[int | float | str | None, Event] = {}
    leaves = []
    for event in reversed(spans):
        later = following.get(event.tid)
        leaves.append(later is None or later.ts >= event.ts + event.dur)
        following[event.tid] = event
    yield from zip(spans, reversed(leaves), strict=True)


def _bytes(spans: Iterable[Event]) -> Iterator[tuple[float, str, int, int]]:
    """Yield the bytes of each collective that the profiler describes."""
    for event in spans:
        if event.name == "record_param_comms":
            arguments = _arguments(event)
            size = _ITEM_BYTES.get(arguments.dtype.lower(), 0)
            if arguments.name and size:
                sent, received = max(arguments.sent, 0) * size, max(arguments.received, 0) * size
                yield event.interval[0], op_name(arguments.name), sent, received


def _sums(collectives: Iterable[tuple[float, str, int, int]], step: Interval) -> tuple[dict[str, int], dict[str, int]]:
    sent: defaultdict[str, int] = defaultdict(int)
    received: defaultdict[str, int] = defaultdict(int)
    for begin, op, sent_bytes, received_bytes in collectives:
        if step[0] <= begin < step[1]:
            sent[op] += sent_bytes
            received[op] += received_bytes
    return sent, received


def _arguments(event: Event) -> _CollectiveArguments:
    try:
        return msgspec.json.decode(event.args, type=_CollectiveArguments)
    except msgspec.DecodeError:
        return _CollectiveArguments()


def op_name(name: str) -> str:
    """Return the op of a name such as `gloo:all_reduce`, `_allgather_base` or `ncclDevKernel_AllReduce_Sum_f32`."""
    word = re.sub(r"[^a-z]", "", name.rpartition(":")[2].lower())
    word = re.sub(r"^nccl(dev)?kernel", "", word)
    return next((op for prefix, op in _OP_WORDS.items() if word.startswith(prefix)), word[:64] or "unknown")
