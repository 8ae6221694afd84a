"""The state of one rank as its agent sees it.

Frozen data only. Times are seconds and amounts are bytes. `None` means unknown and is never written as 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

import msgspec

from zmon.format import plain
from zmon.schema.limits import JobId, Seconds, Whole
from zmon.schema.names import COLLECTIVE_TIMEOUT, STEPS_BEFORE_JOIN, second_job_id

T = TypeVar("T")
FROZEN = "F"  # the state of a process that the freezer of its control group holds; /proc has no letter for it
STOPPED_STATES = ("T", "t", FROZEN)  # processes that do not run; T: stopped by a signal, t: held by a tracer (proc(5))
EXECUTED = "exec of another program"  # the exit status of a rank whose process lives on as another program
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")  # a job can set a label to any text
_COUNT = re.compile(r"[0-9]{1,15}")


@dataclass_transform(frozen_default=True)
def quick_dataclass(cls: type[T]) -> type[T]:
    """Make the class a dataclass with slots, for values of which a hub makes ten thousands each second.

    Nothing may assign to its fields, which mypy checks. It is not `dataclass(frozen=True)`, which sets each field by
    `object.__setattr__`: a rank's state would take ten times as long to make.
    """
    return dataclass(slots=True)(cls)


@dataclass(frozen=True, slots=True)
class LastWords:
    """The last message of a dying rank: its exception, its plain exit, or the signal that ended it."""

    kind: str  # one of WORDS_KINDS
    type: str
    message: str
    time: Seconds  # unix seconds on the rank's host
    where: str = ""  # the innermost frame of the job's own code: `load_batch() at train.py:88`; "": unknown
    root: str = ""  # the first exception in its chain of causes, `type: message`; "": the exception itself
    in_collective: bool | None = None  # a collective raised the exception or one of its causes; None: unknown
    # The process that sent a SIGTERM before these last words; 0: not in this PID namespace; None: unknown, or none.
    sender_pid: Whole | None = None
    late_sender_pid: Whole | None = None  # the same for a SIGTERM after these last words

    @property
    def text(self) -> str:
        """The message, and the first exception in the chain of causes in the last line."""
        return f"{self.message}\n{self.root}"

    @property
    def error(self) -> str:
        """The exception in one line: `ValueError: bad batch`.

        A launcher such as `torch.multiprocessing.spawn` turns each exception into `SystemExit: 1`, whose cause counts.
        """
        is_wrapped = self.type == "builtins.SystemExit" and self.root
        text = self.root if is_wrapped else f"{self.type}: {self.message}"
        return plain(text.partition("\n")[0]).removeprefix("builtins.")


@dataclass(frozen=True, slots=True)
class InFlight:
    """The collective in which a rank is right now."""

    op: str
    group: str
    sequence: Whole  # 0: none (send, recv), or unknown
    num_bytes: Whole
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class EnteredCollective:
    """A collective that a rank entered recently, and may still be in."""

    op: str
    group: str
    sequence: Whole  # the same on every rank of the group; counted if C++ issues the operation
    num_bytes: Whole


@quick_dataclass
class RankState:
    """The state of one rank as its agent sees it now. Every `*_seconds` that is an age is measured up to now."""

    # Its identity
    job_id: JobId
    attempt: Whole
    run_uid: str
    start: Seconds  # unix seconds on the rank's host
    rank: Whole
    local_rank: Whole
    world_size: Whole
    host: str
    device: str
    backend: str | None
    labels: dict[str, str]
    # Its process, and how it ended
    pid: Whole
    alive: bool  # the rank's lock on its box is held
    process_state: str | None  # one letter of /proc/<pid>/stat, or FROZEN; None: not readable from here
    exit_status: str | None  # "exit code 1", "signal SIGKILL", EXECUTED, …; None: unknown
    gone_seconds: Seconds | None  # since it was first seen dead; None while alive
    stopped_seconds: Seconds | None  # since the process was first seen stopped; None: not stopped
    last_words: LastWords | None
    # Its launcher
    launcher: str  # the process that started it, the same for all ranks of a launch on a host
    restart_count: Whole
    max_restarts: Whole | None  # None: no launcher that restarts
    # Its place in the program
    activity: str
    activity_seconds: Seconds
    phase: str
    step: Whole  # the current step, or the last one between steps
    step_seconds: Seconds  # since the last step boundary
    state_seconds: Seconds  # since the last change of phase or op
    in_flight: InFlight | None
    sequences: dict[str, Whole]  # collectives entered so far, per group
    # Its progress
    lease_seconds: Seconds | None  # None: no lease applies, because the rank is done
    overdue_seconds: Seconds  # 0 within the lease
    last_step_time: Seconds | None
    last_checkpoint_time: Seconds | None
    report: dict[str, float | None]  # None: not a number, which JSON cannot express
    # Its totals so far
    steps: Whole
    step_seconds_total: Seconds
    totals: dict[str, float] | None  # by column of `zmon.schema.measures`; None: not in the report of a pass
    # Its memory
    resident_bytes: Whole | None
    # What its probe says about itself
    overhead_seconds: Seconds
    dropped_records: Whole

    # An older agent does not report the fields below. They have the same subjects as the fields above, but have
    # defaults, so they are last. Keyword-only fields could stand anywhere, but take eight times as long to set.
    # Its identity
    role: str = ""  # ranks of one role do the same work; "": the job named none
    owner: int | None = None  # uid of the user to whom its box belongs; None: unknown
    wanted_job_id: str = ""  # the id that it has by itself, where another user or launch has it; "": `job_id`
    launch_id: str = ""  # the same for all ranks of a launch, and for its restarts; "": unknown
    program: str = ""  # script, hash of its path, hash of its arguments; "": unknown
    device_name: str = ""  # as its driver names it, or the processors of its host; "": unknown
    # Its process, and how it ended
    watched: bool = True  # False: it had ended before its agent looked first, so `gone_seconds` is an estimate
    blocked_seconds: Seconds | None = None  # since the process was first seen in state D; None: it is in another state
    import_seconds: Seconds | None = None  # from its start to that of its probe: interpreter, imports; None: unknown
    leaving_seconds: Seconds | None = None  # since an exception became its last words, while its process still runs
    last_words_seconds: Seconds | None = None  # since its last words, by its host's clock; None: none
    # Its launcher
    launcher_gone_seconds: Seconds | None = None  # since it was first seen dead; None: it lives, or is unknown
    launcher_status: str | None = None  # how it ended, as `exit_status`; None: it lives, or is unknown
    relaunched_seconds: Seconds | None = None  # age of its newest process after the rank's end; None: none, or unknown
    # It was its whole job, then started the ranks of another one, and has done nothing in torch since then.
    superseded: bool = False
    # Its place in the program
    entered: tuple[EnteredCollective, ...] = ()  # its last two collectives that have a sequence, the latest first
    # Its progress
    # Part of the time since its last progress: the agent did not look then, because the host was suspended, or had no
    # processor for the agent. The rank may not have run either.
    unobserved_seconds: Seconds = 0.0
    # By source of its losses, the step since which they are not finite; None: they are finite. Unknown ones are absent.
    not_finite_since: dict[str, Whole | None] = field(default_factory=dict)
    # Its totals so far
    between_seconds: dict[str, Seconds] = field(default_factory=dict)  # time outside steps, by activity
    open_seconds: Seconds = 0.0  # since the last boundary; counted neither in `between_seconds` nor in steps yet
    flops_dtypes: dict[str, float] = field(default_factory=dict)  # share of each dtype in the operations
    # Its memory
    device_memory_peak_bytes: Whole | None = None  # of the caching allocator of its device
    # What its probe says about itself
    edge: str = "python"  # the implementation of the probe's hot path
    samples_source: str = ""  # where the numbers of samples come from; "": unknown
    flops_source: str = ""  # where the numbers of operations come from, see FLOPS_SOURCES; "": unknown
    uncounted: str = ""  # what the count of operations leaves out, or why there is none

    @property
    def progress_seconds(self) -> float:
        """The time since the last progress: a step boundary in training, the beginning of any other activity.

        Until its first step ends, each change of its state is progress (zmon/agent/sources/rank_box.py).
        """
        if self.steps == 0 and self.activity in ("init", "train"):
            return self.state_seconds
        return self.step_seconds if self.activity == "train" else self.activity_seconds

    @property
    def collective_timeout_seconds(self) -> float | None:
        """The time after which torch ends a collective of the default process group; None: unknown."""
        text = self.labels.get(COLLECTIVE_TIMEOUT, "")
        return float(text) if _SECONDS.fullmatch(text) else None

    @property
    def steps_before_join(self) -> int:
        """The steps that its process had finished when it joined its process group last; 0 if none is known."""
        text = self.labels.get(STEPS_BEFORE_JOIN, "")
        return int(text) if _COUNT.fullmatch(text) else 0

    @property
    def script(self) -> str:
        """The program without its arguments."""
        return self.program.rpartition("-")[0]

    @property
    def has_second_id(self) -> bool:
        """True if another launch has the job id that this one wanted to have."""
        if not self.wanted_job_id or not self.launch_id:
            return False
        return self.job_id == second_job_id(self.wanted_job_id, self.launch_id)


class RankStatus(msgspec.Struct, frozen=True):
    """The status of one rank, in one row of a table of all ranks."""

    rank: Whole
    host: str
    pid: Whole
    alive: bool
    process_state: str | None
    exit_status: str | None
    activity: str
    phase: str
    step: Whole
    op: str | None  # the collective in flight
    sequence: Whole | None
    state_seconds: Seconds  # since the last change of phase or op
    overdue_seconds: Seconds
    last_words: str | None = None  # one line
