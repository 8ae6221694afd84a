"""What a capsule holds. Frozen data only; seconds, bytes and ratios, None: unknown. `capsule.json` is a Capsule."""

from __future__ import annotations

from dataclasses import dataclass

from zmon.schema.finding import Finding
from zmon.schema.names import SCHEMA


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened."""

    time: float  # unix seconds on the hub's clock, or on the one that `clock` names
    what: str
    who: str
    clock: str | None = None  # of another host: whose, and whether it was corrected


@dataclass(frozen=True, slots=True)
class IncidentRank:
    """One rank when the finding was made, and the medians of its last steps."""

    rank: int
    host: str
    local_rank: int
    pid: int
    device: str
    culprit: bool
    watched: bool  # its agent answered
    alive: bool
    process_state: str | None
    exit_status: str | None
    activity: str
    phase: str
    step: int
    op: str | None  # the collective it is inside
    group: str | None
    sequence: int | None
    wait_seconds: float | None  # inside it so far
    state_seconds: float  # since the last change of phase or op
    overdue_seconds: float
    last_words: str | None
    num_steps: int  # that the medians are of
    step_seconds: float | None
    self_seconds: float | None
    exposed_seconds: float | None


@dataclass(frozen=True, slots=True)
class NicRow:
    """One interface or RDMA port: what its counters did in the window."""

    device: str
    up: bool | None
    received_bytes_per_second: float | None
    transmitted_bytes_per_second: float | None
    speed_bytes_per_second: float | None
    errors: dict[str, int]  # those that grew, and by how much


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU: how it was, and what its counters did in the window."""

    gpu: str
    uuid: str
    lost: bool
    utilization_ratio: float | None
    temperature_celsius: float | None
    power_watts: float | None
    sm_clock_hertz: float | None
    throttled: tuple[str, ...]  # reasons
    memory_used_bytes: int | None
    errors: dict[str, int]  # ECC and XID counts that grew, and by how much


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
    """One incident. Stacks, flight records and last lines are in the finding's evidence, the steps in steps.jsonl."""

    finding: Finding
    collected: float  # unix seconds: what follows is as of then
    attempt: int
    world_size: int
    ranks: tuple[IncidentRank, ...]
    missing: tuple[int, ...]  # ranks that nobody ever reported
    hosts: tuple[HostRow, ...]
    stepped: tuple[int, ...]  # ranks whose steps were kept
    left_out: tuple[str, ...]  # a line for each thing that is not here, and why
    versions: dict[str, str]
    seconds_to_collect: float
    timeline: tuple[Moment, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Brief:
    """One incident in a list. `path` is on the machine of the hub."""

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
    """A row of steps.jsonl, as far as a plot needs it."""

    rank: int
    step: int
    start: float  # unix seconds on the rank's host
    duration: float
    self_seconds: float
