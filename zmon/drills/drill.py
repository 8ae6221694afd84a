"""A drill: one fault to cause in a real job, and what zmon has to say of it. Data only; `play.py` plays it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from zmon.drills.stage import Job, JobKind, Stage

StageName = Literal["host", "hosts"]
Culprit = Literal["rank", "host", "none"]
# How it is proved decides how soon it can be: a lock, a process state or a carrier at once; silence by the lease of
# training; `lease` by that of the activity; a rank that is merely slow over steps; `watcher` by Prometheus' own rules.
Proof = Literal["state", "silence", "lease", "steps", "watcher"]


@dataclass(frozen=True)
class Scene:
    """What a fault is given: a job that trains, and whom to strike."""

    stage: Stage
    job: Job
    rank: int
    host: str  # of that rank
    pid: int
    random: Random


@dataclass(frozen=True)
class Strike:
    """What was done. `onset` is unix seconds; `lift` undoes it, None where it cannot be undone."""

    onset: float
    lift: Callable[[], None] | None = None
    lease_seconds: float = 0.0  # for what is proved by a lease: from the onset to its end
    rank: int | None = None  # whoever was struck, where the fault chose another rank than it was given
    host: str | None = None
    unscraped: bool = False  # Prometheus was dead: a page is due from when it scrapes again


Fault = Callable[[Scene], Strike]


@dataclass(frozen=True)
class Drill:
    """One row of the matrix. Without causes it is a quiet one: nobody may be woken."""

    name: str
    injects: str  # in words, for people
    fault: Fault
    causes: tuple[str, ...] = ()  # any of them is right; the name of an alert where no detector can speak
    detector: str = ""
    culprit: Culprit = "rank"
    proof: Proof = "silence"
    stage: StageName = "host"
    kinds: tuple[JobKind, ...] = ("trainer", "ddp", "plain")
    ranks: tuple[int, ...] = (2, 4, 8)
    step_seconds: tuple[float, ...] = (0.02, 0.25, 2.0)
    job: Mapping[str, int | float] = field(default_factory=dict)  # fields of JobSpec that it needs otherwise
    begins: Literal["training", "starting"] = "training"  # when it strikes
    evidence: tuple[str, ...] = ()  # words that the finding has to hold, wherever in it; {rank} is the struck one
    may_warn: tuple[str, ...] = ()  # causes that are true as well: a warning, to be read the next day, and no more
    watch_seconds: float = 8.0  # a quiet one: how long to go on looking after the strike
    unavailable: Callable[[], str | None] = lambda: None  # why it cannot be played here
    afterwards: Callable[[Scene], str | None] = lambda scene: None  # what was lost, once the fault is lifted

    @property
    def quiet(self) -> bool:
        """Whether nobody may be woken."""
        return not self.causes
