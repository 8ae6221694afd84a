"""The terminal output of `zmon ends`: for each end a line, and below it the reason."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from zmon.format import counted, duration
from zmon.schema.api import EndList
from zmon.schema.ended_launch import CANCELLED, DONE, EndedLaunch

_STYLES = {DONE: "green", CANCELLED: "dim"}


def ends_text(answer: EndList) -> RenderableType:
    """Return the ends, the newest first."""
    if not answer.ends:
        return Text("no launch has ended")
    parts: list[RenderableType] = [part for end in answer.ends for part in _end(end)]
    if left_out := answer.num_ends - len(answer.ends):
        parts.append(Text(f"{counted(left_out, 'earlier end')} left out: --limit", style="dim"))
    return Group(*parts)


def _end(end: EndedLaunch) -> tuple[RenderableType, ...]:
    outcome = (end.outcome.replace("_", " "), _STYLES.get(end.outcome, "bold red"))
    ended = f"{datetime.fromtimestamp(end.ended, UTC):%d %b %H:%M:%S} UTC  "
    head = Text.assemble(ended, (end.job_id, "bold"), "  ", outcome, f" after {duration(end.seconds)}", _steps(end))
    parts: list[RenderableType] = [Text(end.reason)]
    if end.next_step:
        parts.append(Text.assemble(("next  ", "dim"), end.next_step))
    return head, *(Padding(part, (0, 0, 0, 4)) for part in parts)


def _steps(end: EndedLaunch) -> str:
    return ", before its first step" if end.first_step is None else f", steps {end.steps_text}"
