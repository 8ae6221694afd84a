"""The output of `zmon analyze` for step logs: findings, where the time went, and a heat map of the ranks.

A pipeline trace adds what-ifs: per stage, for the slowest workers, and for all workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.cli.render.heat_map import heat_map_text
from zmon.format import UNKNOWN, counted, listed
from zmon.offline.analyze.pipeline import PipelineReport, WhatIf, Worker
from zmon.offline.analyze.replay import MIN_STEPS, Attempt, is_conclusive
from zmon.offline.analyze.rows import StepTable
from zmon.stats import quantile

_MAX_NAMES = 4  # of the slowest workers


def report(log: StepTable, attempts: list[Attempt], width: int, extra: Sequence[RenderableType] = ()) -> RenderableType:
    """Return the output for one log. `extra`: what the format of its files adds, below the caveats."""
    parts = summary_lines(findings(log, attempts), caveats(log, attempts))
    for part in extra:
        parts += [Text(""), part]
    for attempt in attempts:
        parts += [Text(""), _time(attempt), Text(""), heat_map_text(log, attempt, width)]
    return Group(*parts)


def summary_lines(conclusions: Sequence[str], notes: Sequence[str]) -> list[RenderableType]:
    """Return the lines at the top of an output: conclusions in bold, notes dimmed."""
    return [*(Text(line, style="bold") for line in conclusions), *(Text(f"({line})", style="dim") for line in notes)]


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
        lines.append(f"the log is long: only one step of {log.every} was read")
    if not log.has_exposed_time:
        lines.append("no column tells exposed time from self time: which rank waits for which is unknown")
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
                f"attempt {attempt.number}: {counted(attempt.num_steps, 'step')}; ranks are compared from {MIN_STEPS} "
                "steps on"
            )
    return lines


def steps_document(log: StepTable, attempts: list[Attempt]) -> dict[str, object]:
    """Return the document that `--json` prints for a step log."""
    return {
        "schema": 1,
        "job_id": log.job_id,
        "caveats": caveats(log, attempts),
        "attempts": [
            {
                "attempt": attempt.number,
                "world_size": attempt.world_size,
                "ranks": attempt.ranks,
                "steps": attempt.job_state.time.num_steps,
                "seconds": attempt.job_state.time.total_seconds,
                "time": attempt.job_state.time.causes,
                "findings": [
                    {"first_step": span.first_step, "last_step": span.last_step, "finding": span.finding}
                    for span in attempt.spans
                ],
            }
            for attempt in attempts
        ],
    }


def _time(attempt: Attempt) -> RenderableType:
    """Return a table with the time by category."""
    account = attempt.job_state.time
    durations = account.recent_seconds
    p50, p95 = quantile(durations, 0.5), quantile(durations, 0.95)
    if p50 is None or p95 is None:
        return Text("no step has a row for every rank: where the time went is unknown")
    title = f"attempt {attempt.number}: {account.total_seconds:,.1f} s in {counted(account.num_steps, 'step')}"
    table = Table("category", *number_columns("seconds", "share", "per step"), title=title, title_justify="left")
    for category, seconds in sorted(account.causes.items(), key=lambda item: -item[1]):
        share = f"{seconds / account.total_seconds:.1%}" if account.total_seconds else "unknown"
        table.add_row(category, f"{seconds:,.2f}", share, f"{seconds / account.num_steps * 1000:.2f} ms")
    last = "its step" if len(durations) == 1 else f"its last {len(durations)} steps"
    table.caption = f"time of {last}: p50 {p50 * 1000:.1f} ms, p95 {p95 * 1000:.1f} ms"
    return table


def what_if_table(report: PipelineReport, workers: Mapping[int, Worker]) -> RenderableType:
    """Return a table with what a step would take if the operations of some workers took as long as usual."""
    table = Table(
        "with usual durations",
        *number_columns("step", "saves", "share of a step", "share of all unevenness"),
        title=f"what-if: mean of {report.steps} replayed steps, {report.seconds:.3f} s as it is "
        f"({report.recorded_seconds:.3f} s with the pauses between operations)",
        title_justify="left",
    )
    for name, what_if in _what_ifs(report, workers):
        explained = UNKNOWN if what_if.explained_ratio is None else f"{what_if.explained_ratio:.0%}"
        saved = what_if.saved_seconds
        share = f"{saved / report.seconds:.1%}" if report.seconds else UNKNOWN
        table.add_row(name, f"{what_if.seconds:.3f} s", f"{saved:.3f} s", share, explained)
    table.caption = "usual: the mean of a computing operation over all workers and steps, the median of communication"
    return table


def _what_ifs(report: PipelineReport, workers: Mapping[int, Worker]) -> list[tuple[str, WhatIf]]:
    slowest = [workers[rank].name for rank in report.slowest.workers]
    kind = "the slowest worker" if len(slowest) == 1 else f"the {len(slowest)} slowest workers"
    return [
        ("all workers", report.even),
        *((f"stage {what_if.stage}", what_if) for what_if in report.stages),
        (f"{kind}: {listed(slowest, _MAX_NAMES)}", report.slowest),
    ]
