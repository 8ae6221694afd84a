"""The terminal output of `zmon analyze`: findings, then where the time went, then a heat map of the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.offline.analyze.heat_map import SHADES, heat_map, shade
from zmon.offline.analyze.replay import MIN_STEPS, Attempt, is_conclusive
from zmon.offline.analyze.rows import StepTable
from zmon.stats import quantile

_MAX_RANKS = 32  # ranks in the heat map
_MARGIN = 8  # width of the column with the number of the rank


def report(log: StepTable, attempts: list[Attempt], width: int, extra: Sequence[RenderableType] = ()) -> RenderableType:
    """Return the output for one log, with `extra` parts of its format below the caveats."""
    parts: list[RenderableType] = [Text(line, style="bold") for line in findings(log, attempts)]
    parts += [Text(f"({line})", style="dim") for line in caveats(log, attempts)]
    for part in extra:
        parts += [Text(""), part]
    for attempt in attempts:
        parts += [Text(""), _time(attempt), Text(""), _heat_map(log, attempt, width)]
    return Group(*parts)


def findings(log: StepTable, attempts: list[Attempt]) -> list[str]:
    """Return a line for each finding, or one line that says why there is none."""
    lines = [
        f"{span.finding.cause}, steps {span.first_step:,} to {span.last_step:,}"
        f"{f' of attempt {span.attempt}' if len(attempts) > 1 else ''}: {span.finding.summary}"
        for attempt in attempts
        for span in attempt.spans
    ]
    return lines or ["no findings" if is_conclusive(log, attempts) else "unknown: the log does not have enough data"]


def caveats(log: StepTable, attempts: list[Attempt]) -> list[str]:
    """Return a line for each thing that is missing from the log or was not read."""
    lines = [f"{count:,} rows left out: {reason}" for reason, count in log.left_out.most_common(5)]
    lines += log.notes
    if log.every > 1:
        lines.append(f"the log is long: only every {log.every}th step was read")
    if not log.has_exposed_time:
        lines.append("the log has no exposed_… and no phase_… columns: which rank waits for which is unknown")
    for attempt in attempts:
        if attempt.ranks < attempt.world_size:
            lines.append(
                f"attempt {attempt.number}: {attempt.ranks} of {attempt.world_size} ranks are in the log, so no step "
                "is complete: add the files of the other nodes"
            )
        elif attempt.job_state.time.num_steps == 0:
            lines.append(f"attempt {attempt.number}: no step has a row for every rank")
        elif attempt.num_steps < MIN_STEPS:
            lines.append(
                f"attempt {attempt.number}: {attempt.num_steps} steps; ranks are compared from {MIN_STEPS} steps on"
            )
    return lines


def _time(attempt: Attempt) -> RenderableType:
    account = attempt.job_state.time
    durations = account.recent_seconds
    table = Table(
        title=f"attempt {attempt.number}: time of {account.num_steps:,} steps, {account.total_seconds:,.1f} s",
        title_justify="left",
    )
    for column in ("category", "seconds", "share", "per step"):
        table.add_column(column, justify="left" if column == "category" else "right")
    for category, seconds in sorted(account.causes.items(), key=lambda item: -item[1]):
        share = f"{seconds / account.total_seconds:.1%}" if account.total_seconds else "unknown"
        table.add_row(category, f"{seconds:,.2f}", share, f"{seconds / account.num_steps * 1000:.2f} ms")
    p50, p95 = quantile(durations, 0.5), quantile(durations, 0.95)
    if p50 is None or p95 is None:
        return Text("no step has a row for every rank: where the time went is unknown")
    table.caption = f"step time of the last {len(durations)} steps: p50 {p50 * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms"
    return table


def _heat_map(log: StepTable, attempt: Attempt, width: int) -> Text:
    ratios = heat_map(log, attempt.number, max(width - _MARGIN - 1, 16), _MAX_RANKS)
    text = Text("self time of each rank ÷ self time of the median rank: ")
    text.append(f"'{SHADES[1]}' 1.1 ×  '{SHADES[2]}' 1.25 ×  '{SHADES[3]}' 1.5 ×  '{SHADES[4]}' 2 × or more\n")
    if len(ratios.ranks) < attempt.ranks:
        text.append(f"(the {len(ratios.ranks)} slowest of {attempt.ranks} ranks)\n")
    for rank, cells in zip(ratios.ranks, ratios.cells, strict=True):
        text.append(f"{rank:>{_MARGIN - 1}} {''.join(map(shade, cells))}\n")
    first, last = (f"{log.number(step):,}" for step in (ratios.first_steps[0], ratios.first_steps[-1]))
    text.append(f"{'step':>{_MARGIN - 1}} {first}{last:>{max(len(ratios.first_steps) - len(first), 1)}}")
    return text
