"""May it pass? A threshold such as `step_seconds>+3%`, for a pipeline.

Pure. What chance explains fails nothing, and what was too short or too noisy to show such a change passes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from zmon.errors import UsageError
from zmon.offline.compare.judge import Change

_FORM = re.compile(r"\s*([^<>\s]+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Gate:
    """Fails where a quantity changed by more than that."""

    name: str
    more: bool  # it fails above the threshold; else below
    threshold: float  # relative, with its sign

    @classmethod
    def parse(cls, text: str) -> Gate:
        """Raises UsageError, with an example."""
        found = _FORM.fullmatch(text)
        if not found:
            raise UsageError(f"--fail-on {text} is no threshold", "", 'Write it like "step_seconds>+3%"')
        name, than, sign, percent = found.groups()
        more = than == ">"
        if sign and (sign == "+") != more:
            meant = f'"{name}{than}{"+" if more else "-"}{percent}%"'
            raise UsageError(f"--fail-on {text} would fail where nothing changed", "", f"Did you mean {meant}?")
        return cls(name, more, float(percent) / 100 * (1 if more else -1))

    def __str__(self) -> str:
        return f"{self.name}{'<>'[self.more]}{100 * self.threshold:+g}%"

    def judge(self, changes: Sequence[Change]) -> tuple[bool | None, str]:
        """Whether it passes, None: that cannot be told; and why, in a line. Raises UsageError: no such quantity."""
        by_name = {change.name: change for change in reversed(changes)}  # a gauge may be called like a phase
        if self.name not in by_name:
            known = ", ".join(by_name)
            near = difflib.get_close_matches(self.name, by_name, 1)
            if changes[0].half_width is None:  # nothing was judged, so it may well have that quantity
                return None, f"{self}: unknown, {changes[0].reason}"
            raise UsageError(
                f"neither run tells {self.name}", f"known are {known}", f"Did you mean {near[0]}?" if near else ""
            )
        found = by_name[self.name]
        if found.change is None or found.half_width is None:
            return None, f"{self}: unknown, {found.reason}"
        measured = f"it is {found.change:+.1%} ± {found.half_width:.1%}"
        beyond = found.change > self.threshold if self.more else found.change < self.threshold
        if beyond and abs(found.change) > found.half_width:
            return False, f"{self}: {measured}"
        if found.half_width > max(abs(self.threshold), 1e-9):
            return None, f"{self}: unknown, {measured}: such a change would not show. Let both run longer"
        return True, f"{self}: no, {measured}"
