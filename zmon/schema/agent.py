"""One agent: its answer to the hub, and how the hub sees it. Frozen data only."""

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
    # job_id → run uid of a rank's start → records newer than `since`; filled only when `since` was asked for
    records: dict[str, dict[str, tuple[StepRecord, ...]]] = field(default_factory=dict)
    cursor: int = 0  # hand it back as `since`
    monotonic: float | None = None  # at `time`, seconds on the host's monotonic clock: what steps start by
    box_dir: str = ""  # where it looks for ranks
    plans: dict[str, Plan] = field(default_factory=dict)  # by the run uid that told it; none if the asker has them
    plans_version: str = ""  # hand it back as `plans`; empty: there are none
    leases: tuple[Threshold, ...] | None = None  # those its site changed; None: it does not tell
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """How the hub sees one agent."""

    url: str
    host: str | None  # None: it never answered
    reachable: bool
    silent_seconds: float
    error: str | None = None
    sources: tuple[SourceStatus, ...] = ()
    version: str | None = None  # of zmon; None: it never answered
    leases: tuple[Threshold, ...] | None = None  # those its site changed; None: it never answered, or does not tell
