"""A finding: the conclusion of a detector. Frozen data only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from zmon.format import dated
from zmon.schema.evidence import AnyEvidence, Evidence, narrowed
from zmon.schema.names import MOVING_CAUSES, SCHEMA, STALL, severity_order

E = TypeVar("E", bound=Evidence)


@dataclass(frozen=True, slots=True)
class Finding:
    """The conclusion of a detector: culprit, cause, onset and next step. Times are unix seconds."""

    id: str
    job_id: str
    detector: str
    cause: str
    severity: str  # a Severity, or a word that only a newer zmon knows
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    step: int | None  # the step of the culprits
    onset: float  # begin of the fault, as the detector estimates it
    detected: float  # the time at which the finding opened
    confidence: float  # from 0 to 1
    summary: str  # what happened, in one sentence
    detail: str  # what to do next
    runbook: str  # the section of docs/runbooks.md
    op: str | None = None  # the collective in which ranks wait
    sequence: int | None = None  # its sequence in the group
    resolved: float | None = None  # None: the finding is open
    lost_gpu_hours: float | None = None
    evidence: AnyEvidence = field(default_factory=Evidence)  # of the class of the detector, once it is in a finding
    capsule: str | None = None  # the directory of the incident
    as_of: float | None = None  # when the summary was written; ages in it are those of that time. None: unknown
    proof: str = ""  # one of PROOFS; "": unknown
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Turn decoded or empty evidence into the class of the detector."""
        object.__setattr__(self, "evidence", narrowed(self.evidence, self.detector))

    def evidence_of(self, kind: type[E]) -> E:
        """Return the evidence as this class; without a field if the finding is of another detector."""
        return self.evidence if isinstance(self.evidence, kind) else kind()

    def text(self, now: float) -> str:
        """Return the summary, with the time of its figures if it was written more than a few seconds before `now`."""
        return dated(self.summary, self.as_of, now)

    @property
    def culprits(self) -> tuple[int | str, ...]:
        """The ranks at fault, or else the hosts; a fault of the network has no ranks."""
        return self.ranks or self.hosts

    @property
    def is_stall(self) -> bool:
        """True if the job does not move, or a fault ended it."""
        return self.detector == STALL and not (self.cause in MOVING_CAUSES and self.severity == "warning")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in the order of severity. The one that began first may be the cause of the others."""
    return sorted(findings, key=lambda finding: (-severity_order(finding.severity), finding.onset))


def decode_finding(line: bytes) -> Finding:
    """Return the finding in one line of JSON. Raises msgspec.DecodeError.

    If another version wrote the evidence in a shape that this one cannot read, the finding is returned without it.
    """
    try:
        return msgspec.json.decode(line, type=Finding)
    except msgspec.ValidationError:
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(msgspec.json.encode({**fields, "evidence": {}}), type=Finding)
