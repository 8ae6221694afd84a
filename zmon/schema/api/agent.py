"""What an agent answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.flight import Flight
from zmon.schema.host import SourceStatus
from zmon.schema.names import SCHEMA
from zmon.schema.thresholds import Threshold


class SnapshotRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/snapshot`. The answer is an `AgentReport`."""

    since: int = -1  # a cursor: records of steps that ended after it; negative: no records
    job_id: str | None = None  # None: of every job
    about: int = 0  # so many records of each rank, the same steps on all of them; 0: all
    last: int = 0  # or so many, the last ones; 0: all
    plans: str = ""  # the version of the plans that the asker has; empty: none


class SuspectsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/suspects`, a long poll: answered when the suspects are not those of `since`, or after `wait`."""

    wait: float = 0.0  # seconds
    since: float = -1.0  # the version the asker has; negative: none


class Suspicion(msgspec.Struct, frozen=True):
    """A rank that the hub should look at, and why."""

    job_id: str
    rank: int
    reason: str  # exited · stopped · overdue


class Suspects(msgspec.Struct, frozen=True):
    """The ranks that an agent suspects, and a number that changes with them."""

    version: int
    suspects: Sequence[Suspicion]
    schema: int = SCHEMA


class EvidenceRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/evidence/{job_id}/{rank}`."""

    job_id: str
    rank: str
    run: str | None = None  # the run uid of a start; None: the newest
    stacks: bool = True


class RankEvidence(msgspec.Struct, frozen=True):
    """What one rank is stuck in and what it wrote last. None where it is not to be had, with the reason beside it."""

    job_id: str
    rank: int
    run_uid: str = ""
    alive: bool = True
    pid: int | None = None  # as the agent sees it
    wchan: str | None = None  # the kernel function it sleeps in
    stack: str | None = None  # Python stacks of all threads
    stack_error: str | None = None
    flight: Flight | None = None  # collectives in flight
    flight_error: str | None = None
    stderr_tail: str | None = None
    stderr_error: str | None = None
    stderr_path: str | UnsetType | None = UNSET  # left out where nobody looked
    stderr_shared: bool | UnsetType = UNSET  # other ranks of the host write to the same file
    schema: int = SCHEMA


class AgentHealthRequest(msgspec.Struct, frozen=True):
    """`GET /healthz` of an agent."""


class SourceDown(msgspec.Struct, frozen=True):
    """A source that does not answer."""

    source: str
    since: float  # unix seconds
    error: str | None


class AgentHealth(msgspec.Struct, frozen=True):
    """How an agent does. Status 200 while it can look at the boxes, else 503."""

    healthy: bool
    host: str
    down: Sequence[SourceDown]
    sources: Sequence[SourceStatus]
    leases: Sequence[Threshold] = ()  # those that the site changed
    schema: int = SCHEMA
