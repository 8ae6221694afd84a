"""The terminal output of `zmon demo` and `zmon up`: URLs, a progress line, and the summary."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.table import Column, Table

from zmon.format import clock, number
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.stack import Urls, password
from zmon.stack.replay import Recording


def url_table(urls: Urls, data_dir: Path, has_dashboard: bool) -> Table:
    """Return where each part listens, and where its password and the logs are."""
    columns = Column("part", no_wrap=True), Column("address", overflow="fold")
    table = Table(*columns, title="zmon", title_justify="left")
    table.add_row("dashboard", urls.dashboard if has_dashboard else "does not run")
    table.add_row("Prometheus", urls.prometheus)
    table.add_row("Alertmanager", urls.alertmanager)
    table.add_row("its password", f"{data_dir / password.FILE} (user {password.USER})")
    table.add_row("hub", f"{urls.hub}/api/v1/findings")
    table.add_row("agent", f"{urls.agent}/metrics")
    table.add_row("logs", str(data_dir / "logs"))
    return table


def recording_lines(recording: Recording, fault_time: float) -> list[str]:
    """Return the lines that say what is played, and when its fault comes (unix seconds)."""
    day = f"{datetime.fromtimestamp(recording.began, UTC):%Y-%m-%d}"
    return [
        f"This is a recording of a real job, of {day}: {recording.title}.",
        f"Hub, Prometheus and dashboard are real, and find the fault by themselves. It comes at {clock(fault_time)}. "
        "Ctrl-C ends everything.",
    ]


def progress_line(job: JobView | None, findings: list[Finding]) -> str:
    """Return the state of the job and its worst finding in one line."""
    if job is None or not job.step or job.step_seconds is None:
        return "waiting for the first step …"
    loss = number(job.report["loss"]) if "loss" in job.report else "unknown"
    rate = "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}"
    line = (
        f"{job.state:>8}  step {job.step:,}  {rate} samples/s  loss {loss}  step time {milliseconds(job.step_seconds)}"
    )
    worst = next((f for f in findings if f.resolved is None), None)
    if worst is not None:
        line += f"  {worst.severity.upper()} {worst.cause} rank {', '.join(map(str, worst.ranks)) or 'unknown'}"
    return line


def summary(job: JobView | None, findings: list[Finding]) -> Table:
    """Return the last figures of the job, and its findings. `job`: None if the hub has not seen it."""
    table = Table(title="Summary", title_justify="left", show_header=False)
    if job is None:
        table.add_row("steps", "none: the hub saw no step")
        return table
    table.add_row("steps", str(job.step))
    table.add_row("samples/s", "unknown" if job.samples_per_second is None else f"{job.samples_per_second:,.0f}")
    table.add_row("step time p50 / p95", f"{milliseconds(job.step_seconds)} / {milliseconds(job.step_seconds_p95)}")
    for key, value in job.report.items():
        table.add_row(key, number(value))
    total = sum(job.time.values())
    for category, seconds in sorted(job.time.items(), key=lambda item: -item[1]):
        table.add_row(f"time in {category}", f"{seconds / total:6.1%}" if total else "unknown")
    table.add_row("findings", "none" if not findings else "\n".join(f"{f.severity} {f.summary}" for f in findings))
    return table


def milliseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1000:.1f} ms"
