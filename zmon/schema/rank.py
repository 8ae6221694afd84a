"""The state of one rank as its agent sees it.

Frozen data only. Times are seconds and amounts are bytes. `None` means unknown and is never written as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from zmon.schema.step import Measures


@dataclass(frozen=True, slots=True)
class LastWords:
    """The last message of a dying rank: its exception, its plain exit, or the signal that ended it."""

    kind: str  # one of WORDS_KINDS
    type: str
    message: str
    time: float  # unix seconds on the rank's host
    where: str = ""  # the innermost frame of the job's own code: `train.py:88, load_batch`; "": unknown
    root: str = ""  # the first exception in its chain of causes, `type: message`; "": the exception itself
    in_collective: bool | None = None  # a collective raised the exception or one of its causes; None: unknown

    @property
    def error(self) -> str:
        """The exception in one line: `ValueError: bad batch`.

        A launcher such as `torch.multiprocessing.spawn` turns each exception into `SystemExit: 1`, whose cause counts.
        """
        is_wrapped = self.type == "builtins.SystemExit" and self.root
        text = self.root if is_wrapped else f"{self.type}: {self.message}"
        return text.partition("\n")[0].removeprefix("builtins.")


@dataclass(frozen=True, slots=True)
class Memory:
    """The bytes that the caching allocator of the rank's device holds."""

    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """The collective in which a rank is right now."""

    op: str
    group: str
    sequence: int  # 0: none (send, recv), or unknown
    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EnteredCollective:
    """A collective that a rank entered recently, and may still be in."""

    op: str
    group: str
    sequence: int  # the same on every rank of the group; counted if C++ issues the operation
    num_bytes: int


@dataclass(frozen=True, slots=True)
class RankState:
    """The state of one rank as its agent sees it now. Every `*_seconds` that is an age is measured up to now."""

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
    launcher: str  # the process that started it, the same for all ranks of a launch on a host
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
    step: int  # the current step, or the last one between steps
    step_seconds: float  # since the last step boundary
    state_seconds: float  # since the last change of phase or op
    in_flight: InFlight | None
    sequences: dict[str, int]  # collectives entered so far, per group
    lease_seconds: float | None  # None: no lease applies, because the rank is done
    overdue_seconds: float  # 0 within the lease
    steps: int
    step_seconds_total: float
    measures: Measures
    memory: Memory | None
    report: dict[str, float | None]  # None: not a number, which JSON cannot express
    last_words: LastWords | None
    last_step_time: float | None
    last_checkpoint_time: float | None
    overhead_seconds: float
    dropped_records: int
    resident_bytes: int | None
    entered: tuple[EnteredCollective, ...] = ()  # its last two collectives that have a sequence, the latest first
    blocked_seconds: float | None = None  # since the process was first seen in state D; None: it is in another state
    between_seconds: dict[str, float] = field(default_factory=dict)  # time outside steps, by activity
    open_seconds: float = 0.0  # since the last boundary; counted neither in `between_seconds` nor in steps yet
    role: str = ""  # ranks of one role do the same work; "": the job named none
    edge: str = "python"  # the implementation of the probe's hot path
    samples_source: str = ""  # where the numbers of samples come from; "": unknown
    leaving_seconds: float | None = None  # since an exception became its last words, while its process still runs
    last_words_seconds: float | None = None  # since its last words, by its host's clock; None: none, or an older agent
    launcher_gone_seconds: float | None = None  # since its launcher was first seen dead; None: it lives, or is unknown
    launcher_status: str | None = None  # how the launcher ended, as `exit_status`; None: it lives, or is unknown
    owner: int | None = None  # uid of the user to whom its box belongs; None: an older agent
    wanted_job_id: str = ""  # the id that it has by itself, where a job of another user has it; "": `job_id`


class RankStatus(msgspec.Struct, frozen=True):
    """The status of one rank, in one row of a table of all ranks."""

    rank: int
    host: str
    pid: int
    alive: bool
    process_state: str | None
    exit_status: str | None
    activity: str
    phase: str
    step: int
    op: str | None  # the collective in flight
    sequence: int | None
    state_seconds: float  # since the last change of phase or op
    overdue_seconds: float
    last_words: str | None = None  # one line
