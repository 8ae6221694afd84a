"""A finding: who, why, since when, what next. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmon.schema.evidence import Evidence
from zmon.schema.names import SCHEMA, STALL


@dataclass(frozen=True, slots=True)
class Finding:
    """A conclusion: who, why, since when, what next. See the contract for each field."""

    id: str
    job_id: str
    detector: str
    cause: str
    severity: str  # a Severity, or the word of a newer zmon
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    step: int | None
    onset: float
    detected: float
    confidence: float
    summary: str
    detail: str
    runbook: str
    op: str | None = None
    sequence: int | None = None
    resolved: float | None = None
    lost_gpu_hours: float | None = None
    evidence: Evidence = field(default_factory=Evidence)
    capsule: str | None = None
    schema: int = SCHEMA

    @property
    def is_stall(self) -> bool:
        """Whether the job stands still, or ended other than by itself."""
        return self.detector == STALL
