"""The state of the hub at one moment, and the text of each panel of `zmon top`. Pure: no terminal, no clock.

Ages are relative to the time at which the hub answered. They do not grow during an outage of the hub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from zmon.cli.render.status import job_columns, urgent_parts
from zmon.format import clock, counted, duration
from zmon.schema.api import RankRow
from zmon.schema.finding import Finding
from zmon.schema.job import BLIND, NO_JOB, JobView, unseen
from zmon.schema.names import severity_order
from zmon.schema.rank import STOPPED_STATES

JOB_COLUMNS = ("  job", "state", "ranks", "step", "step time", "samples/s", "most time in")
RANK_COLUMNS = ("  rank", "host", "activity", "phase / op", "for", "step", "self", "exposed")
_OTHER_COLUMNS_WIDTH = 66  # width of a job's row without the name
_MIN_JOB_WIDTH = 14  # width of the name of a job in a narrow terminal
_MAX_HOST_WIDTH = 20
_MAX_CATEGORIES = 5  # time categories of a job that are shown
_MIN_SHARE = 0.005  # a smaller share of the time would be shown as 0%


class Row(NamedTuple):
    """A row of a table."""

    cells: tuple[str, ...]
    is_highlighted: bool


@dataclass(frozen=True)
class HubState:
    """The hub's answers at one moment."""

    time: float  # unix seconds
    blind: bool
    jobs: tuple[JobView, ...]
    findings: tuple[Finding, ...]
    ranks_job_id: str | None = None  # the job that `ranks` are of
    ranks: tuple[RankRow, ...] = ()
    ranks_note: str = ""  # which ranks are missing, and why
    hub_as_of: float | None = None  # unix seconds of the hub's last pass

    @property
    def as_of(self) -> float:
        """The time of all figures and ages: while the hub is blind, that of its last known state."""
        return self.hub_as_of if self.blind and self.hub_as_of is not None else self.time

    @property
    def listed(self) -> list[JobView]:
        """The jobs in display order: first jobs with findings, then those that a fault ended; finished jobs last."""
        return sorted(self.jobs, key=lambda job: (not job.findings, not job.ended, job.state == "done", job.job_id))


@dataclass(frozen=True)
class Outage:
    """A time in which the hub does not answer."""

    since: float  # unix seconds
    why: str


def state_line(url: str, state: HubState | None, outage: Outage | None, now: float) -> Text:
    """Return the first line: the time and the number of findings, or how old the data below is."""
    if outage is not None:
        (why,) = unseen(hub_error=outage.why)
        below = f"The data below is {duration(now - state.time)} old" if state else "There is no data yet"
        since = f"since {clock(outage.since)}, for {duration(now - outage.since)}"
        return Text(f"{BLIND.word} {since}: {why} {below}", style="bold red")
    if state is None:
        return Text(f"asking {url} …")
    if state.blind:
        (why,) = unseen(hub_is_blind=True, as_of=state.hub_as_of)
        return Text(f"{BLIND.word}: {why}", style="bold red")
    numbers = Counter(finding.severity for finding in state.findings)
    worst_first = sorted(numbers, key=severity_order, reverse=True)
    findings = ", ".join(f"{numbers[severity]} {severity}" for severity in worst_first) or "no findings"
    jobs = counted(len(state.jobs), "job")
    num_ended = sum(job.headline.ended is not None for job in state.jobs)
    ended = f", {num_ended} ended by a fault" if num_ended else ""
    return Text(f"{clock(state.time)}  {jobs}, {findings}{ended}  {url}")


def job_rows(state: HubState, selected: str | None, before: Mapping[str, Mapping[str, float]], width: int) -> list[Row]:
    """Return a row per job. `before` has the seconds by job and time category as they were a minute ago."""
    room = max(_MIN_JOB_WIDTH, width - _OTHER_COLUMNS_WIDTH)

    def row(job: JobView) -> Row:
        mark = (">" if job.job_id == selected else " ") + ("!" if job.is_affected else " ")
        largest = next(iter(shares(job.time, before.get(job.job_id, {}))), "ended" if job.has_failed else "no step")
        return Row((mark + shortened(job.job_id, room), *job_columns(job), largest), job.is_affected)

    return [row(job) for job in state.listed]


def findings_panel(state: HubState, job_id: str | None) -> RenderableType:
    """Return the findings of one job or of all, the worst first, then the other urgent headlines."""
    findings = [finding for finding in state.findings if job_id in (None, finding.job_id)]
    parts = urgent_parts(findings, [job for job in state.jobs if job_id in (None, job.job_id)], state.as_of)
    return Group(*parts) if parts else Text("no findings" if state.jobs else NO_JOB.line)


def job_line(state: HubState, job_id: str | None, before: Mapping[str, Mapping[str, float]]) -> Text:
    """Return the full name of the selected job and its largest time categories."""
    job = next((job for job in state.jobs if job.job_id == job_id), None)
    if job is None:
        return Text()
    categories = ", ".join(shares(job.time, before.get(job.job_id, {}))[:_MAX_CATEGORIES])
    line = Text(job.job_id, style="bold")
    line.append(f": {categories or 'no step in the last minute'}", style="not bold")
    if job.progress:
        line.append(f"\n{job.progress.text}", style="not bold")
    if state.ranks_job_id == job.job_id and state.ranks_note:
        line.append(f"\n{state.ranks_note}", style="not bold")
    return line


def rank_rows(state: HubState, job_id: str | None) -> list[Row]:
    """Return a row per rank, the culprits first."""
    if state.ranks_job_id != job_id:
        return []
    culprits = {rank for finding in state.findings if finding.job_id == job_id for rank in finding.ranks}
    rows = sorted(state.ranks, key=lambda row: (row.rank not in culprits, row.rank))
    return [Row(_rank_cells(row, row.rank in culprits), row.rank in culprits) for row in rows]


def _rank_cells(row: RankRow, is_culprit: bool) -> tuple[str, ...]:
    """Return the cells of a rank, in the order of RANK_COLUMNS."""
    if not row.watched:
        activity = "unwatched"
    elif not row.alive:
        activity = "done" if row.activity == "done" else f"gone: {row.exit_status or 'exit status unknown'}"
    else:
        activity = f"{row.activity}, stopped" if row.process_state in STOPPED_STATES else row.activity
    phase_or_op = f"{row.op} #{row.sequence}" if row.op else row.phase
    return (
        f"{'!' if is_culprit else ' '} {row.rank}",
        shortened(row.host, _MAX_HOST_WIDTH),
        activity,
        phase_or_op if row.alive else "",
        duration(row.state_seconds),
        f"{row.step:,}",
        duration(row.self_seconds),
        duration(row.exposed_seconds),
    )


def shares(time: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Return the shares of the time categories since `before`, the largest first, such as "forward 41%".

    `time` and `before`: the seconds by category. If one has become less, the account began anew, and all of it counts.
    """
    growth = {category: seconds - before.get(category, 0.0) for category, seconds in time.items()}
    if any(seconds < 0 for seconds in growth.values()):
        growth = dict(time)
    total = sum(growth.values())
    if total <= 0:
        return []
    largest = sorted(growth.items(), key=lambda item: -item[1])
    return [f"{category} {seconds / total:.0%}" for category, seconds in largest if seconds > _MIN_SHARE * total]


def shortened(name: str, room: int) -> str:
    """Return the name. If it does not fit, return its beginning and its end, because names may differ in either."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[-end:]}"


def still_selected(state: HubState, selected: str | None) -> str | None:
    """Return the selected job, or the first one if it is gone."""
    jobs = [job.job_id for job in state.listed]
    if selected in jobs:
        return selected
    return jobs[0] if jobs else None
