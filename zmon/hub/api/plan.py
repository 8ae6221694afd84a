"""The table that compares the plan of a job with what was measured, rank by rank. Pure; built for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.api import Amounts, PlanRow, PlanTable
from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState
from zmon.schema.row import row_of

_OP = "all_to_all"  # the collective whose bytes a plan predicts
_STEPS = 16  # the median of this many recent steps shows what a step takes now

_Amount = Callable[[AlignedStep, int], float | None]  # returns an amount of a rank in a step; None: unknown
_MEASURED: dict[str, _Amount] = {
    "lookups": lambda step, rank: step.lookups[rank],
    "sent_bytes": lambda step, rank: step.sent_bytes[_OP][rank] if _OP in step.sent_bytes else 0,
    "received_bytes": lambda step, rank: step.received_bytes[_OP][rank] if _OP in step.received_bytes else 0,
    "seconds": lambda step, rank: step.self_seconds[rank],
}


def plan_table(snapshot: Snapshot) -> PlanTable:
    """Return a row for each rank that an agent has reported; None where nothing was planned or measured yet."""
    plan = snapshot.plan
    steps = [step.mean or step for step in snapshot.steps[-_STEPS:]]

    def row(state: RankState) -> PlanRow:
        rank, peak = state.rank, state.device_memory_peak_bytes
        amounts = {name: _median(amount(step, rank) for step in steps) for name, amount in _MEASURED.items()}
        measured = Amounts(**amounts, memory_bytes=state.resident_bytes if peak is None else peak)
        if plan is None:
            return row_of(PlanRow, state, tables=(), num_tables=None, planned=None, measured=measured)
        planned = Amounts(**{name: getattr(plan, name)[rank] for name in Amounts.__struct_fields__})
        tables, number = plan.tables[rank], plan.num_tables[rank]
        return row_of(PlanRow, state, tables=tables, num_tables=number, planned=planned, measured=measured)

    return PlanTable(snapshot.job_id, [row(state) for state in snapshot.reported_ranks], plan.totals if plan else None)


def _median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are known, or None."""
    return median(known) if (known := [value for value in values if value is not None]) else None
