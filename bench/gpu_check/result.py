"""The result of one comparison: what was compared with what, and whether it held. Frozen data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["passed", "failed", "measured", "not checked"]
PASSED: Verdict = "passed"
FAILED: Verdict = "failed"
MEASURED: Verdict = "measured"  # a figure without a limit
NOT_CHECKED: Verdict = "not checked"  # the note has the reason
VERDICTS: tuple[Verdict, ...] = (PASSED, FAILED, MEASURED, NOT_CHECKED)


@dataclass(frozen=True)
class Result:
    """One line of the report."""

    what: str
    verdict: Verdict
    figure: float | str | None = None
    unit: str = ""
    compared_with: str = ""
    note: str = ""
    setting: str = ""  # ranks, backend and devices; added by who runs the check


def judged(holds: bool) -> Verdict:
    """Return the verdict on a comparison that could be made."""
    return PASSED if holds else FAILED
