"""Define a drill: one fault to cause in a real job, and the finding that zmon has to report. `play.py` plays it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from lab.stage import JobKind, Stage
from lab.stage.launched import Launched

StageName = Literal["host", "hosts", "watch"]
Culprit = Literal["rank", "host", "pair", "none"]
# The way to detect a fault decides how soon zmon can report it. `state`: a lock, a process state or a link carrier
# shows it at once. `silence`: the rank makes no progress within the lease of training. `lease`: it makes no progress
# within the lease of its activity. `steps`: some steps show it; they are slow, or their loss is NaN. `watcher`: an
# alert rule of Prometheus fires, because a part of zmon is dead.
Proof = Literal["state", "silence", "lease", "steps", "watcher"]


@dataclass(frozen=True)
class Scene:
    """The input of a fault: a running job, and the rank to strike."""

    stage: Stage
    job: Launched
    rank: int
    host: str  # host of the struck rank
    pid: int  # of the struck rank, on its host
    random: Random
    obey_seconds: float | None = None  # time for a rank to obey an order; None: that of a job that trains


@dataclass(frozen=True)
class Injection:
    """A fault that was caused."""

    onset: float  # unix seconds
    lift: Callable[[], None] | None = None  # undoes the fault; None: it cannot be undone
    lease_seconds: float = 0.0  # for proof `lease`: time from the onset to the end of the lease
    rank: int | None = None  # the struck rank, if it is not the rank of the scene
    host: str | None = None  # the struck host, if it is not the host of the scene
    others: tuple[int, ...] = ()  # ranks that a second fault struck
    peer: str | None = None  # the other host, if a pair of hosts is struck
    # True: Prometheus was dead. The time to the page counts from its first scrape after the restart.
    unscraped: bool = False


Fault = Callable[[Scene], Injection]


@dataclass(frozen=True)
class Drill:
    """One row of the matrix. A drill without causes is quiet: zmon must not page."""

    name: str
    injects: str  # description of the fault
    fault: Fault
    causes: tuple[str, ...] = ()  # any of them is right; names of alerts if no detector can report the fault
    detector: str = ""
    culprit: Culprit = "rank"
    proof: Proof = "silence"
    stage: StageName = "host"
    needs_stack: bool = False  # it strikes a part of the stack, so `zmon watch` alone is not enough
    kinds: tuple[JobKind, ...] = ("trainer", "ddp", "plain")
    ranks: tuple[int, ...] = (2, 4, 8)
    step_seconds: tuple[float, ...] = (0.02, 0.25, 2.0)
    job: Mapping[str, int | float | str] = field(default_factory=dict)  # fields of JobSpec with other values
    begins: Literal["training", "starting"] = "training"  # the activity of the job when the fault is caused
    evidence: tuple[str, ...] = ()  # words that the finding must contain, anywhere; {rank} is the struck rank
    # Causes that are also true: warnings with them are allowed, critical findings are not.
    may_warn: tuple[str, ...] = ()
    max_warnings: int | None = None  # the number of allowed findings with these causes; None: any number
    watch_seconds: float = 8.0  # quiet drills: time to watch after the event
    with_acts: bool = True  # False: an act would end the job before the fault is complete
    unavailable: Callable[[], str | None] = lambda: None  # returns the reason if the drill cannot be played here
    afterwards: Callable[[Scene], str | None] = lambda scene: None  # returns a clause about lost data, after the lift

    @property
    def quiet(self) -> bool:
        """True if the drill injects something harmless, about which zmon must not page."""
        return not self.causes
