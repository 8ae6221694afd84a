"""An incident at the terminal, and lists of them. Nothing that a job said can move the cursor or colour the screen."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.hub.incidents import words
from zmon.hub.incidents.moments import named
from zmon.hub.incidents.offenders import Offender
from zmon.hub.incidents.report import dearest
from zmon.schema.incident import Brief, Capsule, IncidentRank

_ROWS = 16  # of the ranks
_STDERR_LINES = 20
_STACK_LINES = 40


def incident(capsule: Capsule, where: str) -> RenderableType:
    """One of them; `where` the whole of it is."""
    finding = capsule.finding
    over = "not resolved" if finding.resolved is None else f"resolved {words.moment(finding.resolved)}"
    verdict = f"{finding.severity.upper()} {finding.cause}: {named(finding)}"
    parts: list[RenderableType] = [
        _said(verdict, _colour(finding.severity)),
        _said(finding.summary),
        _said(f"job {finding.job_id}, first sign {words.moment(finding.onset)}, {over}", "dim"),
        _commands(f"do: {finding.detail}"),
        _heading("what happened when"),
        _moments(capsule),
        _heading("ranks"),
        _ranks(capsule),
    ]
    for rank, stack in (finding.evidence.stacks or {}).items():
        text = stack.stack or f"no stack: {stack.stack_error or 'its agent tells none'}"
        lines = words.plain(text).strip().splitlines()
        parts += [_heading(f"rank {rank} stands at"), Text("\n".join(_cut(lines, _STACK_LINES, last=False)))]
    for rank, tail in (finding.evidence.stderr_tail or {}).items():
        shared = ", of all ranks that write there" if tail.shared else ""
        place = f" ({tail.path}{shared})" if tail.path else ""
        lines = words.plain(tail.text or f"none: {tail.error or 'it is empty'}").rstrip().splitlines()
        parts += [_heading(f"rank {rank} said last{place}"), Text("\n".join(_cut(lines, _STDERR_LINES, last=True)))]
    if capsule.left_out:
        parts += [_heading("what is not here"), *map(_said, capsule.left_out)]
    return Group(*parts, _heading(f"all of it: {where}"))


def incidents(briefs: Sequence[Brief]) -> RenderableType:
    """The list, newest first."""
    if not briefs:
        return Text("no incident was kept")
    table = Table(box=None, pad_edge=False)
    for column in ("incident", "first sign", "lasted", "cause", "job", "culprit"):
        table.add_column(column, overflow="fold", no_wrap=column not in ("job", "culprit"))
    for brief in briefs:
        lasted = "goes on" if brief.resolved is None else words.seconds(brief.resolved - brief.onset)
        cells = (brief.id, words.day(brief.onset), lasted, brief.cause, brief.job_id, named(brief))
        table.add_row(*map(_said, cells), style=_colour(brief.severity) if brief.resolved is None else "")
    return table


def offenders(hosts: Sequence[Offender]) -> RenderableType:
    """Hosts, the worst first."""
    if not hosts:
        return Text("no incident that names a host was kept")
    table = Table(box=None, pad_edge=False)
    for column in ("host", "incidents", "GPU-hours lost", "last", "causes"):
        right = column in ("incidents", "GPU-hours lost")
        table.add_column(column, overflow="fold", justify="right" if right else "left", no_wrap=column == "last")
    for one in hosts:
        causes = ", ".join(f"{cause} × {times}" for cause, times in one.causes.items())
        cost = words.UNKNOWN if one.lost_gpu_hours is None else f"{one.lost_gpu_hours:,.2f}"
        table.add_row(_said(one.host), str(one.incidents), cost, words.day(one.last), _said(causes))
    return table


def _moments(capsule: Capsule) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for moment in capsule.timeline:
        said = _said(moment.what)
        said.append(f"  {words.plain(moment.who)}" + (f", {moment.clock}" if moment.clock else ""), style="dim")
        table.add_row(Text(words.since(moment.time - capsule.finding.onset)), said)
    return table


def _ranks(capsule: Capsule) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    right = ("step", "waits", "self time")
    for column in ("", "rank", "host", "was", "in", "step", "inside", "waits", "self time"):
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    rows = dearest(capsule.ranks)
    for row in rows[:_ROWS]:
        table.add_row(*map(_said, _cells(row)), style=_colour(capsule.finding.severity) if row.culprit else "")
    more = len(capsule.ranks) - min(len(rows), _ROWS)
    return Group(table, Text(f"and {more} more in capsule.json", style="dim")) if more > 0 else table


def _cells(row: IncidentRank) -> tuple[str, ...]:
    inside = f"{row.op} #{row.sequence}" if row.op else "no collective"
    waits = "–" if row.wait_seconds is None else words.seconds(row.wait_seconds)
    doing = row.phase if row.activity == "train" else row.activity
    own = words.seconds(row.self_seconds)
    return (
        "▶" if row.culprit else "",
        str(row.rank),
        row.host,
        words.state(row),
        doing,
        str(row.step),
        inside,
        waits,
        own,
    )


def _colour(severity: str) -> str:
    return {"critical": "bold red", "warning": "bold yellow"}.get(severity, "bold")


def _cut(lines: list[str], most: int, last: bool) -> list[str]:
    if len(lines) <= most:
        return lines
    left_out = f"… {len(lines) - most} lines more"
    return [left_out, *lines[-most:]] if last else [*lines[:most], left_out]


def _heading(text: str) -> Text:
    return _said(f"\n{text}", "bold")


def _said(text: str, style: str = "") -> Text:
    return Text(words.plain(text), style=style)


def _commands(text: str) -> Text:
    told = _said(text)
    told.highlight_regex(r"`[^`]+`", "bold")
    return told
