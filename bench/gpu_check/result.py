"""The result of one comparison: what was compared with what, and whether it held. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "measured", "not checked"]
PASSED: Outcome = "passed"
FAILED: Outcome = "failed"
MEASURED: Outcome = "measured"  # a figure without a limit
NOT_CHECKED: Outcome = "not checked"  # the note has the reason
OUTCOMES: tuple[Outcome, ...] = (PASSED, FAILED, MEASURED, NOT_CHECKED)


@dataclass(frozen=True)
class Result:
    """One line of the report."""

    what: str
    outcome: Outcome
    figure: float | str | None = None
    unit: str = ""
    compared_with: str = ""
    note: str = ""
    setting: str = ""  # ranks, backend and devices; `running` adds it


def outcome_of(holds: bool) -> Outcome:
    """Return the outcome of a comparison that could be made."""
    return PASSED if holds else FAILED
