"""The terminal output of `zmon incident`: one incident, or a list of incidents.

Text from a job cannot move the cursor or colour the screen, because `words.plain` removes its control characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.format import duration
from zmon.hub.incidents import words
from zmon.hub.incidents.moments import culprit_names
from zmon.hub.incidents.report import most_important
from zmon.schema.incident import Capsule, IncidentRank, IncidentSummary

_MAX_RANKS = 16  # rows in the table of ranks
_STDERR_LINES = 20
_STACK_LINES = 40


def incident(capsule: Capsule, report_location: str) -> RenderableType:
    """Return one incident; `report_location` is a path or URL."""
    finding = capsule.finding
    resolved = "not resolved" if finding.resolved is None else f"resolved {words.moment(finding.resolved)}"
    next_step = _text(f"next: {finding.detail}")
    next_step.highlight_regex(r"`[^`]+`", "bold")
    headline = f"{finding.severity.upper()} {finding.cause}: {culprit_names(finding)}"
    parts: list[RenderableType] = [
        _text(headline, _colour(finding.severity)),
        _text(finding.text(inf)),
        _text(f"job {finding.job_id}, first sign {words.moment(finding.onset)}, {resolved}", "dim"),
        next_step,
        _heading("timeline"),
        _moments(capsule),
        _heading("ranks"),
        _ranks(capsule),
    ]
    for rank, stack in (finding.evidence.stacks or {}).items():
        text = stack.stack or f"no stack: {stack.stack_error or 'its agent reports none'}"
        lines = words.plain(text).strip().splitlines()
        shown = "\n".join(_cut(lines, _STACK_LINES, keeps_end=False))
        parts += [_heading(f"stack of rank {rank}{stack.when}"), Text(shown)]
    for rank, tail in (finding.evidence.stderr_tail or {}).items():
        shared = ", shared with other ranks" if tail.shared else ""
        origin = f" ({tail.path}{shared})" if tail.path else ""
        lines = words.plain(tail.text or f"none: {tail.error or 'it is empty'}").rstrip().splitlines()
        shown = "\n".join(_cut(lines, _STDERR_LINES, keeps_end=True))
        parts += [_heading(f"end of stderr of rank {rank}{origin}"), Text(shown)]
    if capsule.left_out:
        parts += [_heading("missing from this incident"), *map(_text, capsule.left_out)]
    return Group(*parts, _heading(f"full report: {report_location}"))


def incidents(summaries: Sequence[IncidentSummary]) -> RenderableType:
    """Return a row per incident, in the given order."""
    if not summaries:
        return Text("no incidents")
    table = Table(box=None, pad_edge=False)
    for column in ("incident", "first sign", "lasted", "cause", "job", "culprit"):
        table.add_column(column, overflow="fold", no_wrap=column not in ("job", "culprit"))
    for summary in summaries:
        lasted = "ongoing" if summary.resolved is None else duration(summary.resolved - summary.onset)
        cells = (summary.id, words.day(summary.onset), lasted, summary.cause, summary.job_id, culprit_names(summary))
        table.add_row(*map(_text, cells), style=_colour(summary.severity) if summary.resolved is None else "")
    return table


def _moments(capsule: Capsule) -> Table:
    """Return the timeline: when, what happened, and who says so."""
    table = Table.grid(*number_columns("", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for moment in capsule.timeline:
        line = _text(moment.what)
        line.append(f"  {words.plain(moment.who)}" + (f", {moment.clock}" if moment.clock else ""), style="dim")
        table.add_row(Text(words.since(moment.time - capsule.finding.onset)), line)
    return table


def _ranks(capsule: Capsule) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    numbers = ("step", "waits", "self time")
    for column in ("", "rank", "host", "state", "phase", "step", "collective", "waits", "self time"):
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    rows = most_important(capsule.ranks)
    for row in rows[:_MAX_RANKS]:
        table.add_row(*map(_text, _cells(row)), style=_colour(capsule.finding.severity) if row.culprit else "")
    num_others = len(capsule.ranks) - min(len(rows), _MAX_RANKS)
    return Group(table, Text(f"and {num_others} more in capsule.json", style="dim")) if num_others > 0 else table


def _cells(row: IncidentRank) -> tuple[str, ...]:
    mark = "▶" if row.culprit else ""
    phase = row.phase if row.activity == "train" else row.activity
    collective = f"{row.op} #{row.sequence}" if row.op else "none"
    waits = "–" if row.wait_seconds is None else duration(row.wait_seconds)
    self_time = duration(row.self_seconds)
    return mark, str(row.rank), row.host, words.state(row), phase, str(row.step), collective, waits, self_time


def _colour(severity: str) -> str:
    return {"critical": "bold red", "warning": "bold yellow"}.get(severity, "bold")


def _cut(lines: list[str], max_lines: int, keeps_end: bool) -> list[str]:
    """Return at most `max_lines` lines, from the end or from the beginning, and how many are left out."""
    if len(lines) <= max_lines:
        return lines
    left_out = f"… {len(lines) - max_lines} more lines"
    return [left_out, *lines[-max_lines:]] if keeps_end else [*lines[:max_lines], left_out]


def _heading(text: str) -> Text:
    return _text(f"\n{text}", "bold")


def _text(text: str, style: str = "") -> Text:
    return Text(words.plain(text), style=style)
