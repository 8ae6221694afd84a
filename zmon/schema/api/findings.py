"""What the hub answers about findings and about the detectors that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from zmon.schema.agent import AgentStatus
from zmon.schema.finding import Finding
from zmon.schema.names import SCHEMA
from zmon.schema.thresholds import Threshold


class FindingsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/findings`."""

    job_id: str | None = None  # None: of every job
    active: bool = False  # those that are not resolved only
    evidence: bool = True  # False: without; of a thousand ranks it is 300 kB each


class FindingList(msgspec.Struct, frozen=True):
    """Findings, newest first."""

    findings: Sequence[Finding]
    schema: int = SCHEMA


class DetectorsRequest(msgspec.Struct, frozen=True):
    """`GET /api/v1/detectors`."""


class DetectorState(msgspec.Struct, frozen=True):
    """A detector: why it can say nothing of each job, None where it can; and the last error where it fails."""

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
    """How the hub does. Status 200 while it sees an agent and its passes go through, else 503."""

    healthy: bool
    agents: Sequence[AgentStatus]
    findings_unwritten: str | None = None  # why findings are not written to disk
    incidents_unwritten: str | None = None
    version: str | None = None
    thresholds: Sequence[Threshold] | None = None  # those that the site changed; None: an older hub
    schema: int = SCHEMA
