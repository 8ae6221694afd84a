"""What had the trainer planned for a rank that has too much of the work: which tables, and how much?

Says what was told and decides nothing: whether the prediction or the placement was wrong is for who made the plan.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from zmon.detectors.parts.wording import tables
from zmon.schema.evidence import PlannedShare
from zmon.schema.plan import Plan

Column = Literal["lookups", "sent_bytes", "received_bytes"]


class Placed(NamedTuple):
    """In the words of a finding; empty where the trainer did not say."""

    holds: str  # the rank's tables
    says: str  # how the summary goes on
    plan: PlannedShare | UnsetType


def placed(plan: Plan | None, rank: int, column: Column, unit: str, measured: float) -> Placed:
    """The rank's part in the plan, beside what it has in a step now."""
    if plan is None:
        return Placed("", "", UNSET)
    names, number, planned = plan.tables[rank], plan.num_tables[rank], getattr(plan, column)[rank]
    holds = tables(names, number or len(names)) if names else ""
    says = f"; it holds {holds}" if holds else ""
    if planned is not None:
        times = f", it has {measured / planned:.1f} × that" if planned else ""
        says += f"; {planned:,} {unit} were planned{times}"
    return Placed(holds, says, PlannedShare(names, number, planned, measured, unit))
