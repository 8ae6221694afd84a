"""What a person reads at the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.doctor import Check
from zmon.records import Finding, JobView


def status_table(jobs: Sequence[JobView], findings: Sequence[Finding], blind: bool) -> RenderableType:
    """Jobs, then what is wrong, worst first."""
    parts: list[RenderableType] = []
    if blind:
        parts.append(Text("BLIND: the hub reaches no agent; what follows is what it saw last", style="bold red"))
    parts.append(_jobs(jobs) if jobs else Text("no job: start one with zmon run -- CMD, or zmon demo"))
    order = ("critical", "warning", "info")
    for finding in sorted(findings, key=lambda f: order.index(f.severity)):
        parts.append(Text(f"\n{finding.severity.upper()} {finding.cause}: {finding.summary}", style="bold"))
        parts.append(Text(f"  since {time.time() - finding.onset:.0f} s; {finding.detail}\n  {finding.runbook}"))
    if jobs and not findings and not blind:
        parts.append(Text("no findings"))
    return Group(*parts)


def doctor_table(checks: Sequence[Check]) -> RenderableType:
    """What was tried, what is inert first to be seen."""
    table = Table(show_header=False, box=None)
    for check in checks:
        word, style = {True: ("armed", "green"), False: ("INERT", "bold red"), None: ("absent", "dim")}[check.armed]
        table.add_row(Text(word, style=style), check.name, Text(f"{check.found}. {check.next_step}".rstrip(". ") + "."))
    return table


def number(value: float | None) -> str:
    """What a job reported; JSON carries NaN as null."""
    return "NaN" if value is None else f"{value:.4g}"


def _jobs(jobs: Sequence[JobView]) -> Table:
    table = Table()
    table.add_column("job", no_wrap=True)
    for column in ("state", "ranks", "step", "step time", "samples/s", "report"):
        table.add_column(column)
    for job in jobs:
        table.add_row(
            job.job_id,
            job.state,
            f"{job.ranks_seen}/{job.world_size}",
            "unknown" if job.step is None else f"{job.step:,}",
            "unknown" if job.step_seconds is None else f"{job.step_seconds * 1000:.1f} ms",
            "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}",
            "  ".join(f"{key} {number(value)}" for key, value in job.report.items()),
        )
    return table
