"""The terminal output of `zmon ends`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import counted, duration
from zmon.schema.api import EndList
from zmon.schema.ended_launch import CANCELLED, DONE

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
        table.add_row(
            f"{began:%d %b %H:%M}", end.job_id, outcome, duration(end.seconds), end.steps_text, Text(end.reason)
        )
    left_out = answer.num_ends - len(answer.ends)
    return Group(table, Text(f"{counted(left_out, 'earlier end')} left out: --limit")) if left_out else table
