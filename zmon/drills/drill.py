"""Define a drill: one fault to cause in a real job, and the finding that zmon has to report. `play.py` plays it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from zmon.drills.stage import Job, JobKind, Stage

StageName = Literal["host", "hosts"]
Culprit = Literal["rank", "host", "none"]
# What proves a fault decides how soon zmon can report it. `state`: a lock, a process state or a carrier, at once.
# `silence`: no progress within the lease of training. `lease`: no progress within the lease of the activity. `steps`: a
# slow rank, over some steps. `watcher`: an alert rule of Prometheus, because a part of the monitor is dead.
Proof = Literal["state", "silence", "lease", "steps", "watcher"]


@dataclass(frozen=True)
class Scene:
    """The input of a fault: a running job, and the rank to strike."""

    stage: Stage
    job: Job
    rank: int
    host: str  # of that rank
    pid: int
    random: Random


@dataclass(frozen=True)
class Injection:
    """A fault that was caused. `onset` is in unix seconds; `lift` undoes the fault, None if nothing can."""

    onset: float
    lift: Callable[[], None] | None = None
    lease_seconds: float = 0.0  # proof `lease`: from the onset to the end of the lease
    rank: int | None = None  # the struck rank, if the fault chose another than it was given
    host: str | None = None  # the struck host, likewise
    unscraped: bool = False  # Prometheus was dead: the time to page counts from its first scrape after the restart


Fault = Callable[[Scene], Injection]


@dataclass(frozen=True)
class Drill:
    """One row of the matrix. A drill without causes is quiet: nobody may be paged."""

    name: str
    injects: str  # the fault in words, for people
    fault: Fault
    causes: tuple[str, ...] = ()  # any of them is right; names of alerts where no detector can report the fault
    detector: str = ""
    culprit: Culprit = "rank"
    proof: Proof = "silence"
    stage: StageName = "host"
    kinds: tuple[JobKind, ...] = ("trainer", "ddp", "plain")
    ranks: tuple[int, ...] = (2, 4, 8)
    step_seconds: tuple[float, ...] = (0.02, 0.25, 2.0)
    job: Mapping[str, int | float] = field(default_factory=dict)  # fields of JobSpec that differ from the default
    begins: Literal["training", "starting"] = "training"  # the activity of the job when the fault is caused
    evidence: tuple[str, ...] = ()  # words that the finding must contain, anywhere; {rank} is the struck rank
    may_warn: tuple[str, ...] = ()  # causes that are true as well; a finding may have them, as a warning only
    watch_seconds: float = 8.0  # quiet drills: how long to watch after the fault was caused
    unavailable: Callable[[], str | None] = lambda: None  # returns why the drill cannot be played on this machine
    afterwards: Callable[[Scene], str | None] = lambda scene: None  # returns what was lost, once the fault is lifted

    @property
    def quiet(self) -> bool:
        """True if the drill injects something harmless, so that nobody may be paged."""
        return not self.causes
