"""One job at one moment, all ranks lined up: all that a detector may look at. Frozen data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zmon.schema.agent import AgentStatus
from zmon.schema.aligned_step import AlignedStep, Baseline, StepWindow
from zmon.schema.curve import EfficiencySample
from zmon.schema.flight import Flight
from zmon.schema.host import HostWindow
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState


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
    stretches: tuple[StepWindow, ...] = ()  # of about 5 s each, or 10 steps; the last minutes, oldest first
    baseline: Baseline | None = None  # what a step is like when the job is well; None: not learned yet
    not_finite: Mapping[str, int] = field(default_factory=dict)  # report key → for how many steps NaN on some rank
    flights: Mapping[int, Flight] = field(default_factory=dict)  # by rank; asked for when nothing moves
    efficiency: tuple[EfficiencySample, ...] = ()  # every half minute of training, oldest first; none: nothing recorded
    plan: Plan | None = None  # of this start, for as many ranks; None: its trainer told none

    @property
    def known(self) -> tuple[RankState, ...]:
        """All ranks somebody has reported, now or before its agent fell silent; never empty."""
        return tuple(sorted((*self.ranks, *self.unwatched), key=lambda r: r.rank))
