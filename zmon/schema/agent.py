"""The answer of an agent to the hub, and the state of an agent as the hub sees it. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.host import HostSample, SourceStatus
from zmon.schema.names import SCHEMA
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.step import StepRecord
from zmon.schema.thresholds import Threshold


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent's answer to `GET /api/v1/snapshot`."""

    host: str
    time: float  # unix seconds on the agent's host, for display only
    version: str
    ranks: tuple[RankState, ...]
    sample: HostSample
    sources: tuple[SourceStatus, ...]
    # job id → run uid of a rank → records newer than `since`; filled only if the request has `since`
    records: dict[str, dict[str, tuple[StepRecord, ...]]] = field(default_factory=dict)
    cursor: int = 0  # the value of `since` in the next request
    monotonic: float | None = None  # `time` on the host's monotonic clock, in seconds; steps use the same clock
    box_dir: str = ""  # the directory in which the agent looks for black boxes
    plans: dict[str, Plan] = field(default_factory=dict)  # run uid of the sender → plan; empty if the hub has the plans
    plans_version: str = ""  # the value of `plans` in the next request; empty: no plans
    leases: tuple[Threshold, ...] | None = None  # the leases that the site changed; None: not reported
    schema: int = SCHEMA


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
