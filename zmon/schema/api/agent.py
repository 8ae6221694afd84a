"""The requests and answers of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, UnsetType

from zmon.schema.flight import FlightRecord
from zmon.schema.host import HostSample, SourceStatus
from zmon.schema.limits import JobId, Seconds, Version, Whole
from zmon.schema.names import SCHEMA
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState, quick_dataclass
from zmon.schema.standing import ProcessWork
from zmon.schema.steps import Steps
from zmon.schema.thresholds import Threshold


class SnapshotRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/snapshot`. The answer is an `AgentReport`."""

    since: int = -1  # a cursor: steps that ended after it; negative: no steps
    job_id: str | None = None  # None: of every job
    about: int = 0  # about this many steps of each rank, the same ones on all ranks, as a hub compares them; 0: all
    last: int = 0  # the last steps of each rank, at most this many; 0: all
    plans: str = ""  # the version of the plans that the client has; empty: none
    shard: str = ""  # only jobs of this shard, such as 0/4; empty: of all
    known: str = ""  # the version of what seldom changes about ranks that the client has; for packed answers only


UNREAD_KINDS = ("version", "refused", "damaged")  # what an agent says of a box that it cannot read


@dataclass(frozen=True, slots=True)
class UnreadRank:
    """A rank that lives, and whose state cannot be read: only its place is known."""

    job_id: JobId
    rank: Whole | None  # None: unknown
    kind: str  # one of UNREAD_KINDS; or `report`: the hub cannot decode what the agent says about it
    reason: str  # one line
    seconds: Seconds  # since it was first seen like this


@quick_dataclass
class AgentReport:
    """One agent's answer to `GET /api/v1/snapshot`."""

    host: str
    time: Seconds  # unix seconds on the agent's host, for display only
    version: str
    ranks: tuple[RankState, ...]
    sample: HostSample
    sources: tuple[SourceStatus, ...]
    # By job id, newer than `since`, if the request has it: one part, or in a history one for each rank.
    steps: dict[str, tuple[Steps, ...]] = field(default_factory=dict)
    cursor: Whole = 0  # the value of `since` in the next request
    monotonic: Seconds | None = None  # `time` on the host's monotonic clock, in seconds; steps use the same clock
    box_dir: str = ""  # the directory in which the agent looks for black boxes; "": several
    plans: dict[str, Plan] = field(default_factory=dict)  # run uid of the sender → plan; empty if the hub has the plans
    plans_version: Version = ""  # the value of `plans` in the next request; empty: no plans
    leases: tuple[Threshold, ...] | None = None  # the leases that the site changed; None: not reported
    # Why it would refuse each act of this client; "": it decides about each; None: not reported.
    refuses_acts: str | None = None
    unread: tuple[UnreadRank, ...] = ()  # the first ranks that live and cannot be read
    box_dirs: tuple[str, ...] = ()  # all directories in which it looks, with `*` for the number of a user
    # What the client could not decode, because the agent has another version or is wrong: a count, and a line for each
    # of the first ones. An agent sends neither.
    num_left_out: int = 0
    left_out: tuple[str, ...] = ()
    schema: int = SCHEMA


class SuspectsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/suspects`, a long poll: answered when the suspects differ from those of `since`, or after `wait`."""

    wait: float = 0.0  # seconds
    since: float = -1.0  # the version that the client has; negative: none


class Suspicion(msgspec.Struct, frozen=True):
    """A rank that the hub should look at, and the reason."""

    job_id: JobId
    rank: Whole
    reason: str  # exited · stopped · overdue


class Suspects(msgspec.Struct, frozen=True):
    """The ranks that an agent suspects, and a number that changes with them."""

    version: int
    suspects: Sequence[Suspicion]
    leaving: bool = False  # the agent ends now, by a signal, and is expected back
    schema: int = SCHEMA


class EvidenceRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/evidence/{job_id}/{rank}`."""

    job_id: str
    rank: str
    run: str | None = None  # the run uid of a rank; None: the newest
    stacks: bool = True
    flights: bool = True


class RankEvidence(msgspec.Struct, frozen=True):
    """The evidence about one rank: stacks, collectives in flight, end of standard error.

    A field is None where its value could not be read; the `*_error` field beside it has the reason.
    """

    job_id: str
    rank: int
    run_uid: str = ""
    alive: bool = True
    pid: int | None = None  # as the agent sees it
    wchan: str | None = None  # the kernel function in which it sleeps
    stack: str | None = None  # Python stacks of all threads
    stack_error: str | None = None
    flight: FlightRecord | None = None  # collectives in flight
    flight_error: str | None = None
    stderr_tail: str | None = None
    stderr_error: str | None = None
    stderr_path: str | UnsetType | None = UNSET  # left out if the agent did not look for it
    stderr_shared: bool | UnsetType = UNSET  # True: other ranks of the host write to the same file
    work: ProcessWork | None = None  # of its process and its children; asked for with the stacks
    outside_loops: bool | None = None  # True: its main thread is in no loop around its training steps; None: unknown
    schema: int = SCHEMA


class AgentHealthRequest(msgspec.Struct, frozen=True):
    """`GET /healthz` of an agent."""


class SourceDown(msgspec.Struct, frozen=True):
    """A source of the agent that is down."""

    source: str
    since: float  # unix seconds
    error: str | None


class AgentHealth(msgspec.Struct, frozen=True):
    """The health of an agent. Status 200 while it can read the black boxes, else 503."""

    healthy: bool
    host: str
    down: Sequence[SourceDown]
    sources: Sequence[SourceStatus]
    leases: Sequence[Threshold] = ()  # those that the site changed
    schema: int = SCHEMA
