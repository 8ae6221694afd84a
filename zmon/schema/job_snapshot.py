"""One job at one moment, with all its ranks aligned: the complete input of a detector. Frozen data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter

from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow
from zmon.schema.curve import EfficiencySample
from zmon.schema.ended_launch import LaunchEnd
from zmon.schema.flight import FlightRecord
from zmon.schema.host import HostWindow, SourceStatus
from zmon.schema.pause import HealedPause
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.standing import Standing
from zmon.schema.thresholds import Threshold

NO_COLLECTIVES = "no collectives: ranks are not compared"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The state of one agent as the hub sees it."""

    url: str
    host: str | None  # None: the agent never answered
    reachable: bool
    silent_seconds: float
    error: str | None = None
    sources: tuple[SourceStatus, ...] = ()
    version: str | None = None  # version of zmon; None: the agent never answered
    # The leases that the site changed; None: never answered or not reported.
    leases: tuple[Threshold, ...] | None = None
    # Why it refuses all acts of this hub; "": it decides about each act; None: never answered or not reported.
    refuses_acts: str | None = None
    num_left_out: int = 0  # parts of its last report that the hub could not decode
    left_out: tuple[str, ...] = ()  # the first of them, each with the reason
    host_is_up: bool = False  # the agent does not answer, but its host refused the connection
    is_restarting: bool = False  # the agent does not answer, and said before that it ends; for two minutes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job at one moment, with all its ranks aligned: the complete input of a detector."""

    job_id: str
    time: float  # unix seconds on the hub's host
    attempt: int
    world_size: int
    ranks: tuple[RankState, ...]  # the newest attempt only, in order of ranks
    missing: tuple[int, ...]  # ranks that no agent ever reported; only the first ones, see `num_missing`
    unwatched: tuple[RankState, ...]  # ranks whose agent is silent now, in their last reported state
    agents: tuple[AgentStatus, ...]
    hardware: tuple[HostWindow, ...] = ()  # watched hosts of the job, over about the last minute
    # Host → addresses of its ranks' interfaces; also those of hosts whose agent is silent now.
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    steps: tuple[AlignedStep, ...] = ()  # recent steps, oldest first; short steps are sampled
    step_windows: tuple[StepWindow, ...] = ()  # the last minutes, oldest first; each has at least 5 s and 10 steps
    baseline: Baseline | None = None  # a step while the job is healthy; None: not learned yet
    not_finite: Mapping[str, int] = field(default_factory=dict)  # report key → number of steps with NaN on some rank
    flights: Mapping[int, FlightRecord] = field(default_factory=dict)  # rank → record; requested once nothing moves
    # Ranks that waited in a collective when they ended, by flight record; if its GPU is stuck, a rank looks the same.
    waiters: frozenset[int] = frozenset()
    efficiency: tuple[EfficiencySample, ...] = ()  # every half minute of training, oldest first; empty: no curve
    plan: Plan | None = None  # the plan of this launch; None: the trainer sent none
    # Rank → innermost frame of the job's own code; only for ranks that stand still, once the hub has their stacks.
    frames: Mapping[int, str] = field(default_factory=dict)
    # Rank → what it has done since it stands still; only for some of the ranks that the others wait for.
    standing: Mapping[int, Standing] = field(default_factory=dict)
    # Ranks that were outside the loops around their training steps when the hub looked, and have ended no step since.
    outside_loops: frozenset[int] = frozenset()
    known_seconds: float = inf  # since the hub saw this launch first
    pauses: tuple[HealedPause, ...] = ()  # pauses of jobs of this name in the last day that ended by themselves
    second_jobs: tuple[str, ...] = ()  # jobs of launches that have this job's id as well, and live beside it
    earlier_ends: tuple[LaunchEnd, ...] = ()  # earlier launches that a fault ended, oldest first; see zmon.job.restarts

    @property
    def num_missing(self) -> int:
        """The number of ranks that no agent ever reported, by the size that the job claims to have."""
        return max(len(self.missing), self.world_size - len(self.ranks) - len(self.unwatched))

    @property
    def uncompared(self) -> str:
        """The reason why the times of its ranks are not compared; empty if they are.

        Ranks wait for each other in collectives. Without any, as in asynchronous training, each has a pace of its own.
        """
        ranks = self.reported_ranks
        if len(ranks) < 2 or not all(rank.steps for rank in ranks) or any(rank.sequences for rank in ranks):
            return ""
        return "" if any(step.exposed for step in self.steps) else NO_COLLECTIVES

    @property
    def unfinished_ranks(self) -> list[RankState]:
        """The watched ranks that live and have not finished."""
        return [r for r in self.ranks if r.alive and r.activity != "done"]

    @property
    def reported_ranks(self) -> tuple[RankState, ...]:
        """All ranks that an agent reports now or reported before it fell silent; never empty."""
        if not self.unwatched:
            return self.ranks
        return tuple(sorted((*self.ranks, *self.unwatched), key=attrgetter("rank")))
