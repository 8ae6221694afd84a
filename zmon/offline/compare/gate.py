"""Thresholds such as `step_seconds>+3%` that fail a pipeline.

Pure. A change within the noise does not fail. A comparison that is too short or too noisy to show a change of that size
does not pass either: it is unknown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.errors import UsageError
from zmon.offline.compare.judge import Change

_FORM = re.compile(r"\s*([^<>\s]+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)\s*%\s*")
_MIN_HALF_WIDTH = 1e-9  # with a threshold of 0%, an interval up to this is narrow enough


@dataclass(frozen=True)
class Gate:
    """A threshold that fails if a quantity changed by more than it."""

    name: str
    above: bool  # True: fails if the change is above the threshold; False: fails if it is below
    threshold: float  # relative change; may be negative

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Return the gate that the text describes. Raises UsageError with an example."""
        match = _FORM.fullmatch(text)
        if not match:
            raise UsageError(f"--fail-on {text} is not a threshold", "", 'Write it like "step_seconds>+3%"')
        name, relation, sign, percent = match.groups()
        above = relation == ">"
        if sign and (sign == "+") != above:
            likely = f'"{name}{relation}{"+" if above else "-"}{percent}%"'
            raise UsageError(f"--fail-on {text} would fail if nothing changed", "", f"Did you mean {likely}?")
        return cls(name, above, float(percent) / 100 * (1 if above else -1))

    def __str__(self) -> str:
        return f"{self.name}{'>' if self.above else '<'}{100 * self.threshold:+g}%"

    def judge(self, changes: Sequence[Change]) -> tuple[bool | None, str]:
        """Return whether the gate passes (None: unknown), and why. Raises UsageError if no run has the quantity."""
        by_name = {change.name: change for change in reversed(changes)}  # a gauge may have the name of a phase
        change = by_name.get(self.name, changes[0])
        if self.name not in by_name and change.half_width is not None:  # else nothing was compared: they may have it
            near = difflib.get_close_matches(self.name, by_name, 1)
            hint = f"Did you mean {near[0]}?" if near else ""
            raise UsageError(f"neither run has {self.name}", f"they have {', '.join(by_name)}", hint)
        if change.change is None or change.half_width is None:
            return None, f"{self}: unknown, {change.reason}"
        measured = f"it is {change.change:+.1%} ± {change.half_width:.1%}"
        exceeds = change.change > self.threshold if self.above else change.change < self.threshold
        if exceeds and abs(change.change) > change.half_width:
            return False, f"{self}: {measured}"
        if change.half_width > max(abs(self.threshold), _MIN_HALF_WIDTH):
            return None, f"{self}: unknown, {measured}: the noise hides such a change. Let both runs take more steps"
        return True, f"{self}: no, {measured}"
