"""The content of an incident's capsule. Frozen data only; seconds, bytes and ratios; None means unknown.

The file `capsule.json` is a `Capsule`.
"""

from __future__ import annotations

from dataclasses import dataclass

from zmon.schema.finding import Finding
from zmon.schema.names import SCHEMA


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event in the timeline of an incident."""

    time: float  # unix seconds on the hub's clock, or on the clock that `clock` names
    what: str
    who: str
    clock: str | None = None  # set for the clock of another host: its name, and whether the time was corrected


@dataclass(frozen=True, slots=True)
class IncidentRank:
    """One rank when the finding was opened, and the medians of its last steps."""

    rank: int
    host: str
    local_rank: int
    pid: int
    device: str
    culprit: bool
    watched: bool  # True: its agent answered
    alive: bool
    process_state: str | None
    exit_status: str | None
    activity: str
    phase: str
    step: int
    op: str | None  # the collective in flight
    group: str | None
    sequence: int | None
    wait_seconds: float | None  # time in that collective so far
    state_seconds: float  # since the last change of phase or op
    overdue_seconds: float
    last_words: str | None
    num_steps: int  # number of steps in the medians
    step_seconds: float | None
    self_seconds: float | None
    exposed_seconds: float | None


@dataclass(frozen=True, slots=True)
class NicRow:
    """One interface or RDMA port, with the increase of its counters in the window."""

    device: str
    up: bool | None
    received_bytes_per_second: float | None
    transmitted_bytes_per_second: float | None
    speed_bytes_per_second: float | None
    errors: dict[str, int]  # the increase of each counter that has increased


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU: its state, and the increase of its counters in the window."""

    gpu: str
    uuid: str
    lost: bool
    utilization_ratio: float | None
    temperature_celsius: float | None
    power_watts: float | None
    sm_clock_hertz: float | None
    throttled: tuple[str, ...]  # reasons
    memory_used_bytes: int | None
    errors: dict[str, int]  # the increase of each ECC and XID count that has increased


@dataclass(frozen=True, slots=True)
class HostRow:
    """The hardware of one host of the job, over the last `seconds`."""

    host: str
    seconds: float
    nics: tuple[NicRow, ...]
    gpus: tuple[GpuRow, ...]
    retransmitted_segments: int | None
    memory_available_bytes: int | None
    memory_total_bytes: int | None
    runnable: int | None
    blocked: int | None


@dataclass(frozen=True, slots=True)
class Capsule:
    """One incident as it is stored.

    Stacks, flight records and the end of standard error are in the finding's evidence; the steps are in `steps.jsonl`.
    """

    finding: Finding
    collected: float  # unix seconds; the fields below describe this moment
    attempt: int
    world_size: int
    ranks: tuple[IncidentRank, ...]
    missing: tuple[int, ...]  # ranks that no agent ever reported; the first ones
    hosts: tuple[HostRow, ...]
    stepped: tuple[int, ...]  # ranks with stored steps
    left_out: tuple[str, ...]  # one line for each item that is missing, with the reason
    versions: dict[str, str]
    seconds_to_collect: float
    timeline: tuple[TimelineEvent, ...] = ()
    run_page: str = ""  # URL of the run's page at its experiment tracker; "": unknown
    num_missing: int = 0  # all ranks that no agent ever reported
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class IncidentSummary:
    """The summary of one incident in a list. `path` is on the machine of the hub."""

    id: str
    job_id: str
    detector: str
    cause: str
    severity: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    onset: float
    detected: float
    summary: str
    resolved: float | None = None
    lost_gpu_hours: float | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class PlottedStep:
    """The columns of a row of `steps.jsonl` that a plot needs."""

    rank: int
    step: int
    start: float  # unix seconds on the rank's host
    duration: float
    self_seconds: float
