"""Compare the work of a rank with the trainer's plan for it: which tables it holds, and how much work was planned.

Nothing is decided from this. Whether the prediction or the placement was wrong is a question for the planner's author.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from zmon.detectors.wording import tables
from zmon.schema.evidence import PlannedShare
from zmon.schema.plan import Plan

Column = Literal["lookups", "sent_bytes", "received_bytes"]


class PlanText(NamedTuple):
    """The plan of one rank in the words of a finding; empty if the trainer gave no plan."""

    tables: str  # the names of the rank's tables
    summary: str  # the end of the finding's summary
    plan: PlannedShare | UnsetType


def plan_text(plan: Plan | None, rank: int, column: Column, unit: str, measured: float) -> PlanText:
    """Return the plan of a rank beside the work that was measured in a step now."""
    if plan is None:
        return PlanText("", "", UNSET)
    names, number, planned = plan.tables[rank], plan.num_tables[rank], getattr(plan, column)[rank]
    held_tables = tables(names, number or len(names)) if names else ""
    summary = f"; it holds {held_tables}" if held_tables else ""
    if planned is not None:
        times = f", it has {measured / planned:.1f} × that" if planned else ""
        summary += f"; {planned:,} {unit} were planned{times}"
    return PlanText(held_tables, summary, PlannedShare(names, number, planned, measured, unit))
