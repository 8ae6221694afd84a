"""The diagnosis of a stall: the answer of one of the rules of `diagnosis.py`. Frozen data only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zmon.schema.evidence import StallEvidence
from zmon.schema.rank import RankState


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause, the culprits, and what to do next."""

    cause: str
    summary: str
    detail: str
    confidence: float
    culprits: Sequence[RankState] = ()
    hosts: Sequence[str] = ()
    proven: bool = False  # False: only silence shows that the job will not go on
    evidence: StallEvidence = field(default_factory=StallEvidence)
