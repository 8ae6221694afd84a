"""Figures over many rows of drills: durations, true and reported causes, false pages an hour. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lab.drills.result import Result
from lab.drills.score import FAULT_RESULTS, DrillRow
from lab.drills.targets import TARGETS

NOTHING = "nothing"  # the reported cause of a missed fault
DETECTED: tuple[Result, ...] = ("right", "late")


@dataclass(frozen=True)
class Spread:
    """The distribution of one figure over the rows that have it."""

    p50: float
    p95: float
    max: float
    count: int


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return the distribution of the known values by the nearest-rank method, or None if no value is known."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None

    def percentile(share: float) -> float:
        return known[max(0, math.ceil(share * len(known)) - 1)]

    return Spread(percentile(0.5), percentile(0.95), known[-1], len(known))


def confusion(rows: Sequence[DrillRow]) -> Counter[tuple[str, str]]:
    """Count the pairs of true cause (the first expected one) and reported cause."""
    return Counter((row.expected[0], row.reported_cause or NOTHING) for row in rows if row.result in FAULT_RESULTS)


def results(rows: Sequence[DrillRow]) -> Counter[Result]:
    """Count the results."""
    return Counter(row.result for row in rows)


def finding_spread(rows: Sequence[DrillRow], proof: str) -> Spread | None:
    """Return the distribution of onset → finding over the detected faults with this proof."""
    return spread([row.finding_seconds for row in rows if row.proof == proof and row.result in DETECTED])


def shortfalls(rows: Sequence[DrillRow]) -> tuple[str, ...]:
    """Return a line for each target that all rows together miss, even if each row is as expected."""
    state = finding_spread(rows, "state")
    if state is None or state.count < TARGETS.state_drills or state.p50 <= TARGETS.state_p50_seconds:
        return ()
    target = TARGETS.state_p50_seconds
    return (f"findings that a state proves: the median time is {state.p50:.2f} s, above the target of {target:g} s",)


def false_pages_per_hour(rows: Sequence[DrillRow], seconds: float) -> float | None:
    """Return the false pages per hour of quiet drills that took `seconds` together, or None if that is 0.

    A critical finding counts as a page.
    """
    false = sum(max(len(row.paged), len(row.critical)) for row in rows if row.quiet)
    return false / (seconds / 3600) if seconds > 0 else None
