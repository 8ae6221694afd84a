"""What a person reads of an analysis: the verdict first, then where the time went, then the picture."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.offline.analyze.picture import SHADES, heat_map, shade
from zmon.offline.analyze.replay import Attempt
from zmon.offline.analyze.rows import StepTable
from zmon.stats import quantile

_ROWS = 32  # ranks in the picture
_MARGIN = 8


def report(log: StepTable, attempts: list[Attempt], width: int) -> RenderableType:
    """Everything about one log."""
    parts: list[RenderableType] = [Text(line, style="bold") for line in verdicts(log, attempts)]
    parts += [Text(f"({line})", style="dim") for line in caveats(log, attempts)]
    for attempt in attempts:
        parts += [Text(""), _time(attempt), Text(""), _picture(log, attempt, width)]
    return Group(*parts)


def verdicts(log: StepTable, attempts: list[Attempt]) -> list[str]:
    """A line for each thing that was found."""
    lines = [
        f"{spell.finding.cause}, steps {spell.first_step:,} to {spell.last_step:,}"
        f"{f' of attempt {spell.attempt}' if len(attempts) > 1 else ''}: {spell.finding.summary}"
        for attempt in attempts
        for spell in attempt.spells
    ]
    whole = any(attempt.book.time.num_steps for attempt in attempts)
    return lines or ["nothing stands out" if whole and log.blames else "no verdict"]


def caveats(log: StepTable, attempts: list[Attempt]) -> list[str]:
    """What the log does not tell, and what was not read of it."""
    lines = [f"{count:,} rows left out: {reason}" for reason, count in log.left_out.most_common(5)]
    if log.every > 1:
        lines.append(f"a long log: every {log.every}th step was read")
    if not log.blames:
        lines.append("no exposed_… columns and no phases: who waits for whom is unknown")
    for attempt in attempts:
        if attempt.ranks < attempt.world_size:
            lines.append(
                f"attempt {attempt.number}: {attempt.ranks} of {attempt.world_size} ranks are in the log, so no step "
                "is whole: name the files of the other nodes as well"
            )
        elif attempt.book.time.num_steps == 0:
            lines.append(f"attempt {attempt.number}: no step has a row of every rank")
    return lines


def _time(attempt: Attempt) -> RenderableType:
    account = attempt.book.time
    durations = account.recent_seconds
    table = Table(
        title=f"attempt {attempt.number}: where the time of {account.num_steps:,} steps went, "
        f"{account.total_seconds:,.1f} s",
        title_justify="left",
    )
    for column in ("cause", "seconds", "share", "a step"):
        table.add_column(column, justify="left" if column == "cause" else "right")
    for cause, seconds in sorted(account.causes.items(), key=lambda item: -item[1]):
        share = f"{seconds / account.total_seconds:.1%}" if account.total_seconds else "unknown"
        table.add_row(cause, f"{seconds:,.2f}", share, f"{seconds / account.num_steps * 1000:.2f} ms")
    p50, p95 = quantile(durations, 0.5), quantile(durations, 0.95)
    if p50 is None or p95 is None:
        return Text("no step is known of every rank: where the time went is unknown")
    table.caption = f"the last {len(durations)} steps: {p50 * 1000:.1f} ms (median), {p95 * 1000:.1f} ms (p95)"
    return table


def _picture(log: StepTable, attempt: Attempt, width: int) -> Text:
    picture = heat_map(log, attempt.number, max(width - _MARGIN - 1, 16), _ROWS)
    text = Text("own time of each rank against the median rank's: ")
    text.append(f"'{SHADES[1]}' 1.1 ×  '{SHADES[2]}' 1.25 ×  '{SHADES[3]}' 1.5 ×  '{SHADES[4]}' 2 × and more\n")
    if len(picture.ranks) < attempt.ranks:
        text.append(f"(the {len(picture.ranks)} ranks that stand out most, of {attempt.ranks})\n")
    for rank, cells in zip(picture.ranks, picture.cells, strict=True):
        text.append(f"{rank:>{_MARGIN - 1}} {''.join(map(shade, cells))}\n")
    first, last = f"{picture.first_steps[0]:,}", f"{picture.first_steps[-1]:,}"
    text.append(f"{'step':>{_MARGIN - 1}} {first}{last:>{max(len(picture.first_steps) - len(first), 1)}}")
    return text
