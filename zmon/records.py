"""The words everybody here uses: what a rank did, what a host showed, what zmon concluded.

Frozen data only, no behaviour. Times are seconds, amounts bytes; `None` means unknown and is never written
as 0. What crosses the wire is these dataclasses as JSON (field names are the contract).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zmon.aligned import AlignedStep, Baseline, Stretch
from zmon.hardware import HostSample, HostWindow, SourceStatus
from zmon.planned import Plan

SCHEMA = 1

ACTIVITIES = ("init", "train", "eval", "checkpoint", "done")
PHASES = ("data", "h2d", "embedding", "forward", "backward", "optimizer", "other")
OPS = (
    "all_to_all", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "barrier",
    "send", "recv",
)  # fmt: skip

WordsKind = Literal["exception", "exit", "signal"]
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class OpTotals:
    """One kind of collective: how often, how long, how much (both ways, own chunk included)."""

    count: int = 0
    exposed_seconds: float = 0.0
    inflight_seconds: float = 0.0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Measures:
    """What one step, or all steps so far, amounted to. Ops and phases that never ran are not listed."""

    phases: dict[str, float] = field(default_factory=dict)
    ops: dict[str, OpTotals] = field(default_factory=dict)
    samples: int | None = None
    lookups: int | None = None
    network_sent_bytes: int | None = None
    network_received_bytes: int | None = None
    nic_sent_bytes: int | None = None
    nic_received_bytes: int | None = None

    @property
    def self_seconds(self) -> float:
        """The rank's own time, waiting for nobody."""
        return sum(self.phases.values())

    @property
    def exposed_seconds(self) -> float:
        """Time in collectives that nothing hid."""
        return sum(op.exposed_seconds for op in self.ops.values())


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One optimizer update of one rank. `start` is seconds on the host's monotonic clock."""

    step: int
    start: float
    duration: float
    measures: Measures
    device_memory_peak_bytes: int | None = None
    mean: Measures | None = None  # a step of those since the one told before; None: it stands for itself


@dataclass(frozen=True, slots=True)
class LastWords:
    """What a rank said before it went: an exception, a plain exit, or the signal that ended it."""

    kind: WordsKind
    type: str
    message: str
    time: float  # unix seconds on the rank's host


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the caching allocator of the rank's device."""

    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """The collective a rank is inside right now."""

    op: str
    group: str
    sequence: int  # 0: it has none (send, recv), or it is not known
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Entered:
    """A collective that a rank is in, or was in not long ago."""

    op: str
    group: str
    sequence: int  # in that group, the same on every rank; of an operation that C++ issued the next one by count
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Pending:
    """One operation that was issued and is not done."""

    group: str  # backend:name of the process group: each backend of a group counts for itself
    sequence: int  # in that group, the same on every rank; of send and recv the one of their own
    op: str  # one of OPS, or torch's own word
    name: str  # as torch calls it
    num_bytes: int | None  # of the tensors handed in; where there are none, of those handed out
    sizes: tuple[tuple[int, ...], ...]  # of the same tensors, the first few
    dtypes: tuple[str, ...]
    age_seconds: float | None  # since it was issued; None: the host's clock was set meanwhile
    state: str  # scheduled, started (NCCL with timing only), timed_out


@dataclass(frozen=True, slots=True)
class Flight:
    """A rank's flight record: the oldest and the newest of what is pending, in the order it was issued, and the last
    sequence that is done."""

    pending: tuple[Pending, ...]
    num_pending: int
    last: dict[str, int]  # by group


@dataclass(frozen=True, slots=True)
class RankState:
    """One rank as its agent sees it now. `*_seconds` that are ages end at the moment of looking."""

    job_id: str
    attempt: int
    run_uid: str
    start: float  # unix seconds on the rank's host
    rank: int
    local_rank: int
    world_size: int
    host: str
    pid: int
    device: str
    backend: str | None
    launcher: str  # the process that started it, the same for all ranks of one start on a host
    restart_count: int
    max_restarts: int | None  # None: no launcher that restarts
    labels: dict[str, str]
    alive: bool  # the rank's lock on its box is held
    process_state: str | None  # one letter of /proc/<pid>/stat; None: not readable from here
    exit_status: str | None  # "exit code 1", "signal SIGKILL", …; None: unknown
    gone_seconds: float | None  # since it was first seen dead; None while alive
    stopped_seconds: float | None  # since the process was first seen stopped; None: not stopped
    activity: str
    activity_seconds: float
    phase: str
    step: int  # the step it is in, or the last one
    step_seconds: float  # since the last step boundary
    state_seconds: float  # since the last change of phase or op
    in_flight: InFlight | None
    sequences: dict[str, int]  # collectives entered so far, per group
    lease_seconds: float | None  # None: done, it has all time
    overdue_seconds: float  # 0 within the lease
    steps: int
    step_seconds_total: float
    measures: Measures
    memory: Memory | None
    report: dict[str, float | None]  # None over the wire: not a number, which JSON cannot say
    last_words: LastWords | None
    last_step_time: float | None
    last_checkpoint_time: float | None
    overhead_seconds: float
    dropped_records: int
    resident_bytes: int | None
    entered: tuple[Entered, ...] = ()  # its last two collectives that have a sequence, the latest first
    blocked_seconds: float | None = None  # since the process was first seen in state D; None: it is not
    between_seconds: dict[str, float] = field(default_factory=dict)  # by activity, those of no step
    open_seconds: float = 0.0  # since the last boundary: in neither these nor those in steps
    leaving_seconds: float | None = None  # since it left an exception as its last words, and its process lives on


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent's answer to `GET /api/v1/snapshot`."""

    host: str
    time: float  # unix seconds on the agent's host, for display only
    version: str
    ranks: tuple[RankState, ...]
    sample: HostSample
    sources: tuple[SourceStatus, ...]
    # job_id → run uid of a rank's start → records newer than `since`; filled only when `since` was asked for
    records: dict[str, dict[str, tuple[StepRecord, ...]]] = field(default_factory=dict)
    cursor: int = 0  # hand it back as `since`
    monotonic: float | None = None  # at `time`, seconds on the host's monotonic clock: what steps start by
    box_dir: str = ""  # where it looks for ranks
    plans: dict[str, Plan] = field(default_factory=dict)  # by the run uid that told it; none if the asker has them
    plans_version: str = ""  # hand it back as `plans`; empty: there are none
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """How the hub sees one agent."""

    url: str
    host: str | None  # None: it never answered
    reachable: bool
    silent_seconds: float
    error: str | None = None
    sources: tuple[SourceStatus, ...] = ()
    version: str | None = None  # of zmon; None: it never answered


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job, all ranks lined up, at one moment: all that a detector may look at."""

    job_id: str
    time: float  # unix seconds on the hub's host
    attempt: int
    world_size: int
    ranks: tuple[RankState, ...]  # newest attempt only, by rank
    missing: tuple[int, ...]  # ranks nobody ever reported
    unwatched: tuple[RankState, ...]  # as their agent last said, which is silent now
    agents: tuple[AgentStatus, ...]
    hardware: tuple[HostWindow, ...] = ()  # of its watched hosts, over about the last minute
    steps: tuple[AlignedStep, ...] = ()  # the recent ones, oldest first; not each of them where they are short
    stretches: tuple[Stretch, ...] = ()  # of about 5 s each, or 10 steps; the last minutes, oldest first
    baseline: Baseline | None = None  # what a step is like when the job is well; None: not learned yet
    not_finite: Mapping[str, int] = field(default_factory=dict)  # report key → for how many steps NaN on some rank
    flights: Mapping[int, Flight] = field(default_factory=dict)  # by rank; asked for when nothing moves
    plan: Plan | None = None  # of this start, for as many ranks; None: its trainer told none

    @property
    def known(self) -> tuple[RankState, ...]:
        """All ranks somebody has reported, now or before its agent fell silent; never empty."""
        return tuple(sorted((*self.ranks, *self.unwatched), key=lambda r: r.rank))


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion: who, why, since when, what next. See the contract for each field."""

    id: str
    job_id: str
    detector: str
    cause: str
    severity: Severity
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    step: int | None
    onset: float
    detected: float
    confidence: float
    summary: str
    detail: str
    runbook: str
    op: str | None = None
    sequence: int | None = None
    resolved: float | None = None
    lost_gpu_hours: float | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    capsule: str | None = None
    schema: int = SCHEMA
