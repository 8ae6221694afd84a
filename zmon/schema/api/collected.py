"""The requests of a hub to a collector, and the answers: the reports of many agents in one message of msgpack."""

from __future__ import annotations

import msgspec

from zmon.schema.api.agent import Suspicion
from zmon.schema.limits import Seconds

CONTENT_TYPE = "application/vnd.zmon.collected+msgpack"


class ReportRequest(msgspec.Struct, frozen=True, array_like=True):
    """The request for the report of one agent, as in `SnapshotRequest`."""

    url: str
    since: int = -1
    plans: str = ""
    known: str = ""
    packed: bool = True  # False: as JSON


class CollectRequest(msgspec.Struct, frozen=True):
    """`POST /api/v1/collect` of a collector. An agent that is not among `agents` is asked as in a first request."""

    client: str  # any text that differs from that of other hubs
    agents: tuple[ReportRequest, ...] = ()
    about: int = 0  # about this many records of each rank, as in `SnapshotRequest`
    shard: str = ""  # only jobs of this shard, as in `SnapshotRequest`


class CollectedReport(msgspec.Struct, frozen=True, array_like=True):
    """The answer of one agent to a collector, or why there is none."""

    url: str
    error: str = ""  # empty: it answered
    host_is_up: bool = False  # no agent listens there, and its host said so
    packed: bool = True  # False: `body` is JSON
    body: bytes = b""
    since: int = -1  # as in the request that it answers, which may be an earlier one of a slow agent


class CollectedReports(msgspec.Struct, frozen=True):
    """The answer to `CollectRequest`: one item for each agent of the collector."""

    agents: tuple[CollectedReport, ...]
    complete: bool = True  # False: the collector has just started, and a source has not named its agents yet


class AgentSuspects(msgspec.Struct, frozen=True, array_like=True):
    """The ranks that one agent suspects."""

    url: str
    suspects: tuple[Suspicion, ...] = ()
    leaving: bool = False  # the agent said that it ends, and is expected back


class CollectedSuspectsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/collected-suspects`, a long poll like `/api/v1/suspects` of an agent."""

    wait: Seconds = 0.0
    since: float = -1.0


class CollectedSuspects(msgspec.Struct, frozen=True):
    """The agents that suspect a rank or that leave, and a number that changes with them."""

    version: int
    agents: tuple[AgentSuspects, ...]
