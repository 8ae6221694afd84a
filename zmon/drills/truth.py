"""The truth about a fault, and a published state of a finding: what the verdict on a random play compares. Pure."""

from __future__ import annotations

import msgspec


class TrueFault(msgspec.Struct, frozen=True):
    """The truth about one fault of a composition: what struck whom, when, and what zmon may report about it."""

    job: str
    fault: str
    rank: int | None  # the rank that a finding may name; None: none
    host: str
    time: float  # unix seconds
    causes: tuple[str, ...] = ()  # none: the fault is harmless
    may_warn: tuple[str, ...] = ()  # causes of warnings that are true while it lasts


class Shown(msgspec.Struct, frozen=True):
    """The fields of a finding that count for the verdict, as they were published at some time."""

    id: str
    detector: str
    cause: str
    severity: str
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    detected: float  # unix seconds
    confidence: float
