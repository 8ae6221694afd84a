"""Move the answers of a recorded agent to another time, by a table of all times, ages and counters in them. Pure.

The times of events move with the recording. When its end is played again, clocks and counters continue from their last
values. So do ages that grew all the time, such as that of a stopped process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import msgspec

from zmon.schema import host
from zmon.schema.api import RankEvidence, Suspicion
from zmon.schema.api.agent import AgentReport, UnreadRank
from zmon.schema.flight import FlightRecord, PendingCollective
from zmon.schema.measures import ns
from zmon.schema.plan import Plan
from zmon.schema.rank import EnteredCollective, InFlight, LastWords, RankState
from zmon.schema.standing import ProcessWork
from zmon.schema.steps import SAME_SIZE_SENT, START, STEP, Steps
from zmon.schema.thresholds import Threshold

T = TypeVar("T")
# date: unix seconds. count: only increases, as the clock of a host does. age: seconds since an event. value: the rest.
Kind = Literal["date", "count", "age", "value"]
# Every field that has a number, by its kind. A test finds fields that are missing here.
KINDS: Mapping[type, Mapping[Kind, str]] = {
    AgentReport: {"date": "time", "count": "monotonic", "value": "cursor num_left_out schema"},
    RankState: {
        "date": "start last_step_time last_checkpoint_time",
        "count": "sequences step steps not_finite_since step_seconds_total totals between_seconds overhead_seconds "
        "dropped_records",
        "age": "gone_seconds stopped_seconds activity_seconds step_seconds state_seconds overdue_seconds "
        "blocked_seconds leaving_seconds last_words_seconds launcher_gone_seconds relaunched_seconds open_seconds "
        "unobserved_seconds",
        "value": "attempt rank local_rank world_size pid restart_count max_restarts lease_seconds report "
        "resident_bytes owner import_seconds flops_dtypes device_memory_peak_bytes",
    },
    LastWords: {"date": "time", "value": "sender_pid late_sender_pid"},
    InFlight: {"count": "sequence", "age": "seconds", "value": "num_bytes"},
    EnteredCollective: {"count": "sequence", "value": "num_bytes"},
    UnreadRank: {"age": "seconds", "value": "rank"},
    Steps: {"value": "counts columns"},  # see `later_steps`
    Plan: {"value": "lookups sent_bytes received_bytes seconds memory_bytes num_tables totals steps"},
    Threshold: {"value": "default value"},
    host.SourceStatus: {"date": "last_success_time", "count": "num_errors num_dropped", "value": "duration_seconds"},
    host.NicSample: {"count": "received_bytes transmitted_bytes errors", "value": "speed_bytes_per_second"},
    host.GpuSample: {
        "count": "ecc_errors xid_errors pcie_received_bytes pcie_sent_bytes nvlink_received_bytes nvlink_sent_bytes "
        "nvlink_errors",
        "value": "memory_used_bytes memory_total_bytes utilization_ratio tensor_active_ratio memory_active_ratio "
        "power_watts power_limit_watts temperature_celsius memory_temperature_celsius clocks_hertz max_clocks_hertz "
        "pids minor",
    },
    host.HeldGpus: {"age": "idle_seconds", "value": "num_gpus"},
    host.TcpSample: {"count": "retransmitted_segments"},
    host.TcpPeer: {
        "count": "retransmitted_segments acked_bytes busy_seconds",
        "value": "rank num_sockets send_queue_bytes receive_queue_bytes delivery_bytes_per_second round_trip_seconds "
        "num_waiting num_timeouts",
    },
    host.HostLoad: {
        "count": "cpu_seconds major_faults oom_kills pressure_seconds full_pressure_seconds",
        "value": "memory_available_bytes memory_total_bytes swap_used_bytes runnable blocked",
    },
    host.DiskSample: {"count": "read_bytes written_bytes busy_seconds", "value": "in_progress"},
    host.MountSample: {"count": "operations wait_seconds timeouts"},
    host.CgroupSample: {
        "count": "throttled_seconds oom_kills",
        "value": "ranks memory_used_bytes memory_limit_bytes cpu_limit_cores",
    },
    host.ClockSample: {"value": "offset_seconds"},
    host.KernelLog: {"count": "counts"},
    host.KernelEvent: {"date": "time", "value": "xid"},
    host.ProcessSample: {"count": "storage_read_bytes", "value": "rank pid run_delay_ratio"},
    Suspicion: {"value": "rank"},
    RankEvidence: {"value": "rank pid schema"},
    FlightRecord: {"count": "last", "value": "num_pending"},
    PendingCollective: {"count": "sequence", "age": "age_seconds", "value": "num_bytes sizes"},
    ProcessWork: {"count": "cpu_seconds read_bytes written_bytes network_bytes switches", "value": "processes"},
}
_KIND: Mapping[type, Mapping[str, Kind]] = {
    cls: {name: kind for kind, names in kinds.items() for name in names.split()} for cls, kinds in KINDS.items()
}
_GREW_RATIO = 0.9  # an age that grew by this share of a round grew all the time; else its event came again in the round


@dataclass(frozen=True)
class Loop:
    """The part of a recording that is played again, or one field or item of it."""

    first: Any  # the answer at its start
    last: Any  # the answer at its end
    rounds: int  # how many rounds have begun, at least one
    seconds: float  # of one round

    def of_field(self, name: str) -> Loop:
        return dataclasses.replace(self, first=getattr(self.first, name, None), last=getattr(self.last, name, None))

    def of_item(self, key: Any) -> Loop:
        return dataclasses.replace(self, first=_item(self.first, key), last=_item(self.last, key))

    def increase(self, kind: Kind) -> float:
        """Return the increase of a number in all rounds; 0 if it is unknown."""
        first, last = self.first, self.last
        if not isinstance(first, int | float) or not isinstance(last, int | float) or last < first:
            return 0
        if kind == "age" and last - first < _GREW_RATIO * self.seconds:
            return 0
        return (last - first) * self.rounds


def move(value: T, seconds: float, loop: Loop | None = None) -> T:
    """Return an answer with all dates later by `seconds`. With a loop, counts and ages continue after its rounds."""
    if isinstance(value, Steps):
        return value  # they have the clock of their host: see `later_steps`
    if isinstance(value, dict):
        return cast(T, {key: move(item, seconds, loop and loop.of_item(key)) for key, item in value.items()})
    if isinstance(value, tuple | list):
        items = [move(item, seconds, loop and loop.of_item(index)) for index, item in enumerate(value)]
        return type(value)(items)
    names = _fields(value)
    if not names:
        return value
    kinds = _KIND.get(type(value), {})
    fields = {}
    for name in names:
        old, field_loop = getattr(value, name), loop and loop.of_field(name)
        kind = kinds.get(name)
        fields[name] = move(old, seconds, field_loop) if kind is None else _move_number(old, kind, seconds, field_loop)
    return type(value)(**fields)


def later_steps(steps: Steps, num_steps: int, seconds: float, sent_bytes: int) -> Steps:
    """Return steps as they are after so many more steps, seconds of their host's clock, and sent bytes."""
    increases = {STEP: num_steps, START: ns(seconds), SAME_SIZE_SENT: sent_bytes}
    columns = {name: (low + increases.get(name, 0), data) for name, (low, data) in steps.columns.items()}
    return dataclasses.replace(steps, columns=columns)


def _fields(value: object) -> tuple[str, ...]:
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(value)) if dataclasses.is_dataclass(value) else ()


def _move_number(value: Any, kind: Kind, seconds: float, loop: Loop | None) -> Any:
    """Return a number, or each number of a mapping, at the other time."""
    if isinstance(value, dict):
        return {key: _move_number(item, kind, seconds, loop and loop.of_item(key)) for key, item in value.items()}
    if kind == "value" or not isinstance(value, int | float):
        return value
    return value + (seconds if kind == "date" else 0) + (loop.increase(kind) if loop else 0)


def _item(items: Any, key: Any) -> Any:
    try:
        return items[key]
    except (LookupError, TypeError):
        return None
