"""Plan and reality of one job, rank by rank. Pure; made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from zmon.schema.aligned_step import AlignedStep
from zmon.schema.plan import Plan
from zmon.schema.rank import RankState
from zmon.schema.snapshot import Snapshot

_OP = "all_to_all"
_STEPS = 16  # the last ones, that tell what a step is like now

Value = Callable[[AlignedStep, int], float | None]


def plan(snapshot: Snapshot) -> dict[str, Any]:
    """A row for each rank that somebody reported. What was not told, or not measured yet, is None."""
    told = snapshot.plan
    steps = [step.mean or step for step in snapshot.steps[-_STEPS:]]

    def row(state: RankState) -> dict[str, Any]:
        at = state.rank
        return {
            "rank": at,
            "host": state.host,
            "tables": told.tables[at] if told else (),
            "num_tables": told.num_tables[at] if told else None,
            "planned": _planned(told, at) if told else None,
            "measured": {
                **{name: _usual(value(step, at) for step in steps) for name, value in _MEASURED.items()},
                "memory_bytes": state.memory.peak_bytes if state.memory else state.resident_bytes,
            },
        }

    return {"totals": told.totals if told else None, "ranks": [row(state) for state in snapshot.known]}


def _planned(told: Plan, at: int) -> dict[str, float | None]:
    return {
        "lookups": told.lookups[at],
        "sent_bytes": told.sent_bytes[at],
        "received_bytes": told.received_bytes[at],
        "seconds": told.seconds[at],
        "memory_bytes": told.memory_bytes[at],
    }


def _usual(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    return median(known) if (known := [value for value in values if value is not None]) else None


_MEASURED: dict[str, Value] = {
    "lookups": lambda step, at: step.lookups[at],
    "sent_bytes": lambda step, at: step.sent_bytes[_OP][at] if _OP in step.sent_bytes else 0,
    "received_bytes": lambda step, at: step.received_bytes[_OP][at] if _OP in step.received_bytes else 0,
    "seconds": lambda step, at: step.self_seconds[at],
}
