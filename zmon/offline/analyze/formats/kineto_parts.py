"""Sorts the events of one rank's Chrome trace into communication, work that hides it, and phases. Pure.

A kernel belongs to the phase in which the CPU launched it, and a kernel of NCCL to the operation that launched it; the
two events have the same `correlation`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec

from zmon.offline.analyze.intervals import Interval, subtract, union
from zmon.schema.names import OPS

_MICROSECOND = 1e-6  # seconds
_MAX_NESTED = 8  # earlier operations of a thread that are looked at for the one that launched a kernel
_MAX_NAME = 64  # letters of an op that zmon does not know
_STEP = re.compile(r"ProfilerStep#(\d{1,12})$")
_COLLECTIVE = re.compile(r"nccl[\w-]*:|c10d::")  # beginnings of the names of operations that run over NCCL
_BACKWARD = "autograd::engine::evaluate_function"
# The beginnings of names of events that issue communication or wait for it.
_LAUNCHES = ("c10d::", "record_param_comms", "c10d_functional::", "_c10d_functional::")
_ITEM_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "short": 2, "half": 2, "bfloat16": 2,
    "int": 4, "float": 4, "long": 8, "double": 8,
}  # fmt: skip
# Names of operations and kernels without underscores. The kernel SendRecv runs an all-to-all, or sends and receives.
_OP_WORDS = {"sendrecv": "send_recv", **{op.replace("_", ""): op for op in OPS}}

Thread = int | float | str | None


class TraceEvent(msgspec.Struct):
    """One event of a Chrome trace; fields that are not needed are left out."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Thread = None
    args: msgspec.Raw = msgspec.Raw()

    @property
    def interval(self) -> Interval:
        """Begin and end in seconds."""
        return self.ts * _MICROSECOND, (self.ts + self.dur) * _MICROSECOND


class _Arguments(msgspec.Struct):
    name: str = msgspec.field(name="Collective name", default="")
    correlation: int | None = None
    sent: int = msgspec.field(name="In msg nelems", default=0)
    received: int = msgspec.field(name="Out msg nelems", default=0)
    dtype: str = ""


class Transfer(NamedTuple):
    """The bytes of one collective."""

    begin: float  # seconds
    op: str
    sent_bytes: int
    received_bytes: int


@dataclass
class Parts:
    """The intervals of one rank by what it did in them, in seconds."""

    steps: dict[int, Interval] = field(default_factory=dict)  # by number, as the CPU marked them
    device_steps: dict[int, Interval] = field(default_factory=dict)  # by number, as the GPU ran them
    communication: defaultdict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    working: list[Interval] = field(default_factory=list)  # other work, which hides communication
    phases: defaultdict[str, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    transfers: list[Transfer] = field(default_factory=list)


def parts_of(events: Sequence[TraceEvent]) -> Parts:
    """Return the parts of the rank whose trace has these events."""
    spans = sorted((e for e in events if e.ph == "X" and e.dur >= 0), key=lambda e: (e.ts, -e.dur))
    parts = _on_device(spans) if any(e.cat == "kernel" for e in spans) else _on_cpu(spans)
    parts.transfers = list(_transfers(spans))
    return parts


def _on_cpu(spans: Sequence[TraceEvent]) -> Parts:
    """Return the parts of a rank without kernels: gloo marks its operations on threads of its own."""
    parts = Parts()
    for event, is_leaf in _with_leaves(spans):
        if event.name.startswith("gloo:"):
            parts.communication[op_name(event.name)].append(event.interval)
        elif not event.name.startswith(_LAUNCHES) and "wait_tensor" not in event.name:
            if is_leaf and event.cat == "cpu_op":
                parts.working.append(event.interval)
            _mark(parts, event)
    parts.working += parts.phases["data"]
    return parts


def _on_device(spans: Sequence[TraceEvent]) -> Parts:
    """Return the parts of a rank with kernels."""
    parts = Parts()
    on_cpu = Parts()
    launches = _Launches(spans)
    for event in spans:
        if event.cat == "kernel":
            arguments = _arguments(event)
            if event.name.startswith("nccl"):
                name = arguments.name or launches.operation(arguments.correlation) or event.name
                parts.communication[op_name(name)].append(event.interval)
            else:
                parts.working.append(event.interval)
                parts.phases[launches.phase(arguments.correlation)].append(event.interval)
        elif event.cat == "gpu_memcpy" and "HtoD" in event.name:
            parts.phases["h2d"].append(event.interval)
        elif event.cat == "gpu_user_annotation" and (match := _STEP.match(event.name)):
            parts.device_steps[int(match[1])] = event.interval
        elif event.cat == "user_annotation":
            _mark(on_cpu, event)
    parts.steps = on_cpu.steps
    busy = [*parts.working, *chain.from_iterable(parts.communication.values())]
    parts.phases["data"] = subtract(on_cpu.phases["data"], busy)  # the loader costs time while the GPU has no work
    parts.phases["h2d"] = subtract(parts.phases["h2d"], busy)
    return parts


class _Launches:
    """When the CPU launched each kernel, and the phases and operations of the CPU's threads."""

    def __init__(self, spans: Iterable[TraceEvent]) -> None:
        self._launched: dict[int | None, tuple[Thread, float]] = {}
        phases: defaultdict[tuple[str, Thread], list[Interval]] = defaultdict(list)
        self._operations: defaultdict[Thread, list[tuple[float, float, str]]] = defaultdict(list)
        for event in spans:
            if event.cat in ("cuda_runtime", "cuda_driver"):
                correlation = _arguments(event).correlation
                if correlation is not None:
                    self._launched[correlation] = event.tid, event.interval[0]
            elif event.cat in ("cpu_op", "user_annotation"):
                if event.name.startswith(_BACKWARD):
                    phases["backward", event.tid].append(event.interval)
                elif event.name.startswith("Optimizer."):
                    phases["optimizer", event.tid].append(event.interval)
                elif _COLLECTIVE.match(event.name):
                    self._operations[event.tid].append((*event.interval, event.name))
        self._phases = {key: union(intervals) for key, intervals in phases.items()}

    def phase(self, correlation: int | None) -> str:
        """Return the phase in which a kernel was launched; `other` if that is unknown."""
        if correlation not in self._launched:
            return "other"
        thread, time = self._launched[correlation]
        for phase in ("backward", "optimizer"):
            intervals = self._phases.get((phase, thread), [])
            index = bisect_right(intervals, (time, float("inf"))) - 1
            if index >= 0 and time <= intervals[index][1]:
                return phase
        return "forward"

    def operation(self, correlation: int | None) -> str | None:
        """Return the innermost operation of a process group that launched a kernel."""
        if correlation not in self._launched:
            return None
        thread, time = self._launched[correlation]
        spans = self._operations[thread]
        index = bisect_right(spans, (time, float("inf"), "")) - 1
        latest_first = reversed(spans[max(index - _MAX_NESTED, 0) : index + 1])
        return next((name for begin, end, name in latest_first if begin <= time <= end), None)


def _mark(parts: Parts, event: TraceEvent) -> None:
    """Add an event of the CPU to the steps if it marks one, or else to its phase."""
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


def _with_leaves(spans: Sequence[TraceEvent]) -> Iterator[tuple[TraceEvent, bool]]:
    """Yield each event, and True if no other event of its thread lies within it."""
    following: dict[Thread, TraceEvent] = {}
    leaves = []
    for event in reversed(spans):
        later = following.get(event.tid)
        leaves.append(later is None or later.ts >= event.ts + event.dur)
        following[event.tid] = event
    yield from zip(spans, reversed(leaves), strict=True)


def _transfers(spans: Iterable[TraceEvent]) -> Iterator[Transfer]:
    """Yield the bytes of each collective that the profiler describes."""
    for event in spans:
        if event.name == "record_param_comms":
            arguments = _arguments(event)
            size = _ITEM_BYTES.get(arguments.dtype.lower(), 0)
            if arguments.name and size:
                sent, received = max(arguments.sent, 0) * size, max(arguments.received, 0) * size
                yield Transfer(event.interval[0], op_name(arguments.name), sent, received)


def _arguments(event: TraceEvent) -> _Arguments:
    try:
        return msgspec.json.decode(event.args, type=_Arguments)
    except msgspec.DecodeError:
        return _Arguments()


def op_name(name: str) -> str:
    """Return the op of a name such as `gloo:all_reduce`, `_allgather_base` or `ncclDevKernel_AllReduce_Sum_f32`."""
    word = re.sub(r"[^a-z]", "", name.rpartition(":")[2].lower())
    word = re.sub(r"^nccl(dev)?kernel", "", word)
    return next((op for prefix, op in _OP_WORDS.items() if word.startswith(prefix)), word[:_MAX_NAME] or "unknown")
