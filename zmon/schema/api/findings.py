"""The hub's answers about findings, incidents, intents to act, ends of launches, detectors and its own health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from zmon.schema.act import Intent
from zmon.schema.ended_launch import EndedLaunch
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary
from zmon.schema.job_snapshot import AgentStatus
from zmon.schema.names import SCHEMA
from zmon.schema.thresholds import Threshold


class FindingsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/findings`."""

    job_id: str | None = None  # None: of every job
    active: bool = False  # True: only findings that are not resolved
    evidence: bool = True  # False: leave it out; for a thousand ranks it has 300 kB per finding
    evidence_ranks: int = -1  # rows of ranks in each evidence at most, culprits first; negative: all


class FindingList(msgspec.Struct, frozen=True):
    """Findings, newest first."""

    findings: Sequence[Finding]
    schema: int = SCHEMA


class IncidentsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents`."""


class IncidentList(msgspec.Struct, frozen=True):
    """Every stored incident, newest first."""

    incidents: Sequence[IncidentSummary]
    schema: int = SCHEMA


class IncidentRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/incidents/{id}` returns the capsule; with `/report.html` appended, its page for people."""

    id: str


class IntentsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/intents`."""

    job_id: str | None = None  # None: of every job
    limit: int = 200  # the newest ones; negative: all


class IntentScore(msgspec.Struct, frozen=True):
    """The intents of one cause that zmon did not act upon, by what followed, and whether rules about it may act."""

    cause: str
    right: int
    wrong: int
    unclear: int
    open: int  # not known yet
    is_proven: bool  # enough right ones, and none wrong


class IntentList(msgspec.Struct, frozen=True):
    """Intents, newest first, and the score of each cause."""

    intents: Sequence[Intent]
    num_intents: int  # that match the request, also those beyond the limit
    scores: Sequence[IntentScore] = ()
    stops: Mapping[str, str] = {}  # what a person or a breaker has stopped, with the reason
    has_policy: bool = True  # False: the hub runs without --act
    schema: int = SCHEMA


class EndsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/ends`."""

    job_id: str | None = None  # None: of every job
    seconds: float = -1.0  # only ends in this time before now; negative: all that the hub knows
    limit: int = 200  # the newest ones; negative: all


class EndList(msgspec.Struct, frozen=True):
    """Ends of launches, newest first."""

    ends: Sequence[EndedLaunch]
    num_ends: int  # that match the request, also those beyond the limit
    schema: int = SCHEMA


class DetectorsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/detectors`."""


class DetectorState(msgspec.Struct, frozen=True):
    """The state of one detector.

    `jobs` has, by job id, the reason why the detector cannot judge that job, or None if it can. `failed` is the last
    error, or None.
    """

    name: str
    jobs: Mapping[str, str | None]
    failed: str | None = None


class DetectorList(msgspec.Struct, frozen=True):
    """Every detector of the hub."""

    detectors: Sequence[DetectorState]
    schema: int = SCHEMA


class HubHealthRequest(msgspec.Struct, frozen=True):
    """`GET /healthz` of the hub."""


class HubHealth(msgspec.Struct, frozen=True):
    """The health of the hub. Status 200 while an agent answers and the passes succeed, else 503."""

    healthy: bool
    agents: Sequence[AgentStatus]
    findings_unwritten: str | None = None  # why findings are not written to disk
    incidents_unwritten: str | None = None
    version: str | None = None
    thresholds: Sequence[Threshold] | None = None  # those that the site changed; None: not reported
    # By what the hub cannot write beside findings and incidents, the reason; None: not reported.
    unwritten: Mapping[str, str] | None = None
    # By source of targets, why its last answer is not used; None: not reported.
    discovery: Mapping[str, str] | None = None
    # By recipient of notices, why the oldest one is not sent; None: not reported.
    unsent: Mapping[str, str] | None = None
    alert_labels: Sequence[str] | None = None  # names of labels of jobs on alerts; None: not reported
    enforced: Sequence[str] | None = None  # names of the rules that ask agents for acts; None: not reported
    # By part of the hub that is no detector, such as acts, its last error; None: not reported.
    failed: Mapping[str, str] | None = None
    schema: int = SCHEMA
