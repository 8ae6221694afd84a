"""One rank as its agent sees it.

Frozen data only. Times are seconds, amounts bytes; `None` means unknown and is never written as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.step import Measures


@dataclass(frozen=True, slots=True)
class LastWords:
    """What a rank said before it went: an exception, a plain exit, or the signal that ended it."""

    kind: str  # one of WORDS_KINDS
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
