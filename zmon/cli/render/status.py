"""The terminal output of `zmon status`, with findings first and then the jobs, and of `zmon doctor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from zmon.doctor import Check
from zmon.format import NONE, UNKNOWN, counted, duration, listed, number, sentence
from zmon.schema.finding import Finding, worst_first
from zmon.schema.job import BLIND, EXITED, NO_JOB, Headline, JobView, unseen

NO_READABLE_JOB = "no job whose ranks can be read"
_ENDED = ("done", EXITED)  # states in which a job has no processes, and therefore no speed
_MAX_IN_FULL = 3  # findings shown with all details; more do not fit on the first screen
_MAX_HEALTHY = 8  # jobs shown below those with findings
_MAX_PAUSES = 3  # pauses that healed, the longest first
_DAY_SECONDS = 86400.0


def status_table(
    jobs: Sequence[JobView], findings: Sequence[Finding], blind: bool, now: float, as_of: float | None = None
) -> RenderableType:
    """Return the findings, the worst first, then the jobs. Times are unix seconds.

    While the hub is blind, `as_of` is the time of the last known state, and all ages are those of that time.
    """
    parts: list[RenderableType] = []
    if blind:
        (line,) = unseen(hub_is_blind=True, as_of=as_of)
        parts.append(Text(f"{BLIND.word}: {line}", style="bold red"))
        now = now if as_of is None else as_of
    urgent = urgent_parts(findings, jobs, now, _MAX_IN_FULL)
    parts += urgent
    parts.append(_jobs(jobs) if jobs else Text(NO_READABLE_JOB if findings else NO_JOB.line))
    parts += [Text(f"{job.job_id}: {job.progress.text}") for job in jobs if job.progress]
    parts += [Text(f"{job.job_id}: {pauses}", style="dim") for job in jobs if (pauses := healed_pauses(job))]
    if jobs and not urgent and not blind:
        parts.append(Text("no findings"))
    return Group(*parts)


def urgent_parts(
    findings: Sequence[Finding], jobs: Sequence[JobView], now: float, max_in_full: int | None = None
) -> list[RenderableType]:
    """Return the findings, the worst first, then urgent jobs without one of these findings, the newest first.

    The first `max_in_full` findings have all details, and each other finding has one line; None: all have details.
    """
    heads = {job.headline.finding: job.headline for job in jobs}
    sizes = {job.job_id: job.world_size for job in jobs}
    parts: list[RenderableType] = []
    for index, finding in enumerate(worst_first(findings)):
        head = heads.get(finding.id) or Headline(finding.severity.upper(), finding.severity, "")
        line = f"{head.word} {finding.cause}, job {finding.job_id}, for {duration(now - finding.onset)}"
        if max_in_full is None or index < max_in_full:
            parts += [Text(line, style=_style(head)), _labelled(_rows(finding, sizes, now))]
        else:
            parts.append(Text(f"{line}: {finding.text(now)}", style=_style(head)))
    shown = {finding.id for finding in findings}
    unlisted_jobs = [job for job in jobs if job.headline.is_urgent and job.headline.finding not in shown]
    for job in sorted(unlisted_jobs, key=lambda job: -(job.headline.ended or now)):
        head = job.headline
        parts.append(Text(f"{head.word} job {job.job_id}: {head.text(now)}", style=_style(head)))
        if end := job.ended:
            rows = [("next", f"as advised at its end: {end.detail}"), ("runbook", end.runbook)]
            parts.append(_labelled([*rows, ("evidence", f"`zmon incident {end.finding}`")]))
    return [*parts, Text()] if parts else []


def culprit(finding: Finding) -> str:
    """Return the ranks and hosts of the culprit as text."""
    hosts = list(dict.fromkeys(finding.hosts))
    where = f" on {listed(hosts, 4)}" if hosts else ""
    if finding.ranks:
        return f"rank{'s' if len(finding.ranks) > 1 else ''} {listed([str(rank) for rank in finding.ranks])}{where}"
    return listed(hosts, 4) or "no culprit known"


def healed_pauses(job: JobView) -> str:
    """Return the longest pauses of a job that ended by themselves, in one line; empty if there were none."""
    pauses = [
        f"{duration(pause.longest_seconds)} in {pause.place} ({counted(pause.number, 'time')})" for pause in job.pauses
    ]
    return f"pauses that healed: {listed(pauses, _MAX_PAUSES)}" if pauses else ""


def doctor_table(checks: Sequence[Check]) -> RenderableType:
    """Return a row per check, and the number of checks with each result."""
    table = Table(Column(no_wrap=True), Column(no_wrap=True, max_width=30), "", show_header=False, box=None)
    words = {True: ("armed", "green"), False: ("INERT", "bold red"), None: ("absent", "dim")}
    for check in checks:
        word, colour = words[check.armed]
        sentences = " ".join(sentence(part) for part in (check.result, check.next_step) if part)
        table.add_row(Text(word, style=colour), Text(check.name), Text(sentences))
    counts = [f"{sum(check.armed is kind for check in checks)} {word}" for kind, (word, _) in words.items()]
    return Group(table, Text(", ".join(counts), style="bold"))


def job_columns(job: JobView) -> tuple[str, ...]:
    """Return the cells of a job: state, ranks, step, step time, samples per second."""
    step = UNKNOWN if job.step is None else f"{job.step:,}"
    ranks = f"{job.world_size} gone" if job.has_failed else f"{job.ranks_seen}/{job.world_size}"
    speed = (NONE, NONE) if job.state in _ENDED else (duration(job.step_seconds), _rate(job))
    return job.state, ranks, step, *speed


def _rate(job: JobView) -> str:
    if job.samples_per_second is None:
        return UNKNOWN
    return f"{job.samples_per_second:,.0f}{' (inferred)' if job.samples_inference else ''}"


def _style(head: Headline) -> str:
    """Return the colour of a headline; its word is always printed as well."""
    return {"critical": "bold red", "warning": "bold yellow"}.get(head.urgency, "bold")


def _rows(finding: Finding, sizes: Mapping[str, int], now: float) -> list[tuple[str, str]]:
    """Return the labels and texts of a finding. `sizes`: the world size of each job, by its id."""
    began = datetime.fromtimestamp(finding.onset, UTC)
    since = f"{began:%H:%M:%S} UTC" if now - finding.onset < _DAY_SECONDS else f"{began:%d %b %H:%M:%S} UTC"
    rows = [
        ("who", f"{culprit(finding)} (confidence {finding.confidence:.0%})"),
        ("what", finding.text(now)),
        ("since", since + ("" if finding.step is None else f", step {finding.step:,}")),
    ]
    if cost := _cost(finding, sizes, now):
        rows.append(("cost", cost))
    rows += [("next", finding.detail), ("runbook", finding.runbook)]
    if finding.capsule is not None:
        rows.append(("evidence", f"`zmon incident {finding.id}`, stored in {finding.capsule}"))
    return rows


def _labelled(rows: Sequence[tuple[str, str]]) -> Table:
    """Return labelled lines as a table without borders."""
    table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1))
    for name, text in rows:
        line = Text(text)
        line.highlight_regex(r"`[^`]+`", "bold")  # commands to copy
        table.add_row(Text(f"  {name}", style="dim"), line)
    return table


def _cost(finding: Finding, sizes: Mapping[str, int], now: float) -> str:
    """Return the cost of the fault so far as text, or "" if it is unknown.

    The cost of a restart is part of the field "next".
    """
    if (hours := finding.lost_gpu_hours) is not None:
        return f"{hours:,.1f} GPU hours so far" if hours >= 1 else f"{hours * 60:.1f} GPU minutes so far"
    num_gone = sum(not row.alive for row in finding.evidence.ranks or ())  # a process that is gone does not idle
    num_idle = sizes.get(finding.job_id, 0) - num_gone
    return f"{num_idle} ranks idle for {duration(now - finding.onset)}" if finding.is_stall and num_idle > 0 else ""


def _jobs(jobs: Sequence[JobView]) -> RenderableType:
    """Return the jobs, first the jobs with findings. If there are any, only some of the healthy jobs are shown."""
    affected = [job for job in jobs if job.is_affected]
    healthy = [job for job in jobs if not job.is_affected]
    left_out = max(0, len(healthy) - _MAX_HEALTHY) if affected else 0
    table = Table(Column("job", overflow="fold"), "state", "ranks", "step", "step time", "samples/s", "report")
    for job in [*affected, *healthy[: len(healthy) - left_out]]:
        reported = "  ".join(f"{key} {number(value)}" for key, value in job.report.items())
        table.add_row(Text(job.job_id), *job_columns(job), Text(reported))
    if not left_out:
        return table
    return Group(table, Text(f"and {left_out} jobs without findings; zmon top and zmon status --json show all"))
