"""The terminal output of `zmon ends`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import NONE, counted, duration
from zmon.schema.api import EndList
from zmon.schema.ended_launch import CANCELLED, DONE, EndedLaunch

_STYLES = {DONE: "green", CANCELLED: "dim"}


def ends_table(answer: EndList) -> RenderableType:
    """Return a row for each end, the newest first."""
    if not answer.ends:
        return Text("no launch has ended")
    table = Table(box=None, pad_edge=False)
    for name in ("ended (UTC)", "job", "outcome", "ran", "steps"):
        table.add_column(name, no_wrap=True)
    table.add_column("why", overflow="fold")
    for end in answer.ends:
        outcome = Text(end.outcome.replace("_", " "), style=_STYLES.get(end.outcome, "bold red"))
        began = datetime.fromtimestamp(end.ended, UTC)
        table.add_row(f"{began:%d %b %H:%M}", end.job_id, outcome, duration(end.seconds), steps(end), Text(why(end)))
    left_out = answer.num_ends - len(answer.ends)
    return Group(table, Text(f"{counted(left_out, 'earlier end')} left out: --limit")) if left_out else table


def steps(end: EndedLaunch) -> str:
    """Return the steps that the launch finished: `600 to 1,200`."""
    if end.first_step is None:
        return NONE
    return f"{end.first_step:,} to {end.first_step + end.steps - 1:,}"


def why(end: EndedLaunch) -> str:
    """Return why the launch ended, and what followed."""
    parts = [end.summary, restarted(end), "told late: the hub was down, or no agent answered it" if end.is_late else ""]
    return "; ".join(part for part in parts if part)


def restarted(end: EndedLaunch) -> str:
    """Return what the launcher did afterwards; empty if it started nothing."""
    again = end.restart
    if again is None:
        return ""
    total = "" if end.max_restarts is None else f" of {end.max_restarts}"
    text = f"restart {end.restarts + 1}{total}"
    if again.first_step is None:
        return f"{text} has finished no step yet"
    return f"{text} resumed from step {again.first_step:,} after {duration(again.seconds)}"
