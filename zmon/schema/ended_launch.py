"""The end of one launch of a job, whatever ended it: its outcome, and what a person asks about it. Frozen data only.

`zmon/job/outcome.py` decides the outcome. Times are unix seconds by the hub's clock. None means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from zmon.format import NONE, counted, duration

DONE, FAILED, CANCELLED, PREEMPTED = "done", "failed", "cancelled", "preempted"
NODE_LOST, UNKNOWN_END = "node_lost", "unknown"
OUTCOMES = (DONE, FAILED, CANCELLED, PREEMPTED, NODE_LOST, UNKNOWN_END)  # of this version; a newer zmon may have others
LATE_SECONDS = 60.0  # an end counts as late if the hub records it this long afterwards

# The parts of a recovery, one after the other. An unknown part is absent; the time of `imports` is in `relaunch` then.
RECOVERY_PHASES = (
    "detection",  # from the fault to the first death: a hang until its timeout
    "teardown",  # to the last death
    "relaunch",  # to the process of the first new rank: the launcher
    "imports",  # to the probe of that rank: interpreter and imports
    "init",  # to its first step: rendezvous, model, checkpoint
    "first_step",
)


class Restart(msgspec.Struct, frozen=True):
    """The launch that followed an end, started by the same launcher."""

    attempt: int
    first_step: int | None = None  # the step that it resumed from; None: it has finished no step yet
    phases: Mapping[str, float] = {}  # the recovery in seconds, by RECOVERY_PHASES; empty: it has finished no step yet

    @property
    def seconds(self) -> float | None:
        """The time from the fault (the first death if its detection is unknown) to the first finished step."""
        return sum(self.phases.values()) if self.phases else None


class EndedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one launch. Stored on disk under the names of these fields."""

    id: str  # the same in every hub that records this end
    job_id: str
    attempt: int
    world_size: int
    hosts: tuple[str, ...]
    labels: Mapping[str, str]
    owner: int | None  # uid of the user to whom the job belongs
    began: float
    ended: float
    recorded: float  # when the hub recorded it
    outcome: str  # one of OUTCOMES
    summary: str
    step: int  # the furthest step of its ranks
    steps: int  # the number of steps that it finished
    first_step: int | None  # None: it has finished no step
    restarts: int  # launches before this one by the same launcher
    max_restarts: int | None  # None: its launcher does not restart it
    failure: str = ""  # its class in docs/failures.md; "": it did not fail
    clue: str = ""  # the line that decided the class; it may be one that the job printed
    # Of the finding about what ended it; empty otherwise
    cause: str = ""
    severity: str = ""
    ranks: tuple[int, ...] = ()  # the culprits; empty if none is known
    culprit_hosts: tuple[str, ...] = ()
    finding: str = ""  # its id
    runbook: str = ""
    next_step: str = ""
    detection_seconds: float | None = None  # from the fault to the first death; None: no fault, or reported too late
    teardown_seconds: float = 0.0  # from the first death to the last
    # The account of the job up to then: seconds by time category, over all of its launches
    time: Mapping[str, float] = {}
    goodput_ratio: float | None = None
    restart: Restart | None = None  # None: no launch of the same launcher has followed

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def steps_text(self) -> str:
        """The steps that the launch finished: `600 to 1,200`."""
        if self.first_step is None:
            return NONE
        return f"{self.first_step:,} to {self.first_step + self.steps - 1:,}"

    @property
    def reason(self) -> str:
        """The reason of the end, and what followed."""
        known = self.failure and self.failure != "unknown"
        kind = f"{self.failure.replace('_', ' ')}: " if known else ""
        late = "recorded late: the hub was down, or no agent answered it" if self.is_late else ""
        return "; ".join(part for part in (kind + self.summary, self._restart_text(), late) if part)

    @property
    def repeated_steps(self) -> int | None:
        """The number of steps that the next launch did again; None: unknown, or none has followed."""
        if self.restart is None or self.restart.first_step is None or self.first_step is None:
            return None
        return max(0, self.first_step + self.steps - self.restart.first_step)

    def _restart_text(self) -> str:
        """Return the restart that followed, with its duration and longest phase; "" if none has followed."""
        restart = self.restart
        if restart is None:
            return ""
        total = "" if self.max_restarts is None else f" of {self.max_restarts}"
        text = f"restart {self.restarts + 1}{total}"
        if restart.first_step is None:
            return f"{text} has finished no step yet"
        repeated = f", and repeats {counted(self.repeated_steps, 'step')}" if self.repeated_steps else ""
        longest = max(restart.phases, key=lambda phase: restart.phases[phase], default="")
        most = f" ({longest.replace('_', ' ')} {duration(restart.phases[longest])})" if longest else ""
        return f"{text} resumed from step {restart.first_step:,} after {duration(restart.seconds)}{most}{repeated}"

    @property
    def is_late(self) -> bool:
        """True if the hub recorded the end long after it: the hub was down, or no agent answered it."""
        return self.recorded - self.ended > LATE_SECONDS


@dataclass(frozen=True, slots=True)
class LaunchEnd:
    """The end of one launch that a fault ended. Times are unix seconds by the hub's clock, unless noted."""

    attempt: int
    # The newest start of its ranks, by the clock of that rank's host. It identifies the launch; it orders no launches.
    start: float
    began: float
    ended: float
    step: int  # the furthest step of its ranks
    steps: int  # the number of steps that it finished
    saved: bool  # it wrote a checkpoint
    cause: str
    ranks: tuple[int, ...]  # the culprits; empty if none is known
    hosts: tuple[str, ...]  # of the culprits
    error: str  # the exception of the first culprit in one line, or its exit status; "" if unknown
