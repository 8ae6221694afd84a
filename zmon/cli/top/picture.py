"""What the hub said at one moment, and how each panel says it. Pure: no terminal, no clock.

Ages are those of the moment at which the hub answered: of an old picture nothing is made younger or older.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from zmon.cli.render.status import NO_JOB, findings_table, job_columns
from zmon.format import counted, duration
from zmon.schema.api import RankRow
from zmon.schema.finding import Finding
from zmon.schema.job import JobView
from zmon.schema.names import severity_order

JOB_COLUMNS = ("  job", "state", "ranks", "step", "step time", "samples/s", "most time in")
RANK_COLUMNS = ("  rank", "host", "activity", "in", "since", "step", "self", "wait")
_BESIDE_NAME = 66  # columns of a terminal that the rest of a job's row takes
_SHORTEST_NAME = 14
_HOST_NAME = 20
_CAUSES = 5  # of the time of a job, named

Row = tuple[tuple[str, ...], bool]  # its words, and whether it stands out


@dataclass(frozen=True)
class Picture:
    """What the hub said. `ranks` are those of the job `about`; where they did not come, `no_ranks` says why."""

    at: float  # unix seconds
    blind: bool
    jobs: tuple[JobView, ...]
    findings: tuple[Finding, ...]
    about: str | None = None
    ranks: tuple[RankRow, ...] = ()
    no_ranks: str = ""

    @property
    def listed(self) -> list[JobView]:
        """The jobs in the order in which they are shown, those with findings first."""
        return sorted(self.jobs, key=lambda job: (not job.findings, job.job_id))


@dataclass(frozen=True)
class Silence:
    """The hub does not answer: since when (unix seconds), and why."""

    since: float
    why: str


def state_line(url: str, picture: Picture | None, silence: Silence | None, now: float) -> Text:
    """Whether what stands below is true now; where not, how old it is."""
    if silence is not None:
        line = f"HUB SILENT since {_clock(silence.since)}, for {duration(now - silence.since)}: {silence.why}. "
        below = f"Below is what it said {duration(now - picture.at)} ago" if picture else "Nothing is known yet"
        return Text(line + below, style="bold red")
    if picture is None:
        return Text(f"asking {url} …")
    if picture.blind:
        return Text(
            "BLIND: the hub reaches no agent. Below is what it saw before, how old nobody knows", style="bold red"
        )
    severities = sorted({f.severity for f in picture.findings}, key=severity_order, reverse=True)
    severe = {severity: sum(f.severity == severity for f in picture.findings) for severity in severities}
    wrong = ", ".join(f"{number} {severity}" for severity, number in severe.items() if number) or "no findings"
    jobs = counted(len(picture.jobs), "job")
    return Text(f"{_clock(picture.at)}  {jobs}, {wrong}  {url}")


def job_rows(picture: Picture, chosen: str | None, before: Mapping[str, Mapping[str, float]], width: int) -> list[Row]:
    """A row a job. `before`: seconds by job and cause, a while ago."""
    room = max(_SHORTEST_NAME, width - _BESIDE_NAME)

    def row(job: JobView) -> Row:
        mark = (">" if job.job_id == chosen else " ") + ("!" if job.findings else " ")
        most = next(iter(shares(job.time, before.get(job.job_id, {}))), "no step")
        return (mark + shortened(job.job_id, room), *job_columns(job), most), bool(job.findings)

    return [row(job) for job in picture.listed]


def findings_of(picture: Picture, job_id: str | None) -> RenderableType:
    """What is wrong, worst first, with what to do; of one job, or of all."""
    found = [f for f in picture.findings if job_id in (None, f.job_id)]
    if found:
        return findings_table(found, picture.jobs, picture.at)
    return Text("no findings" if picture.jobs else NO_JOB)


def job_line(picture: Picture, job_id: str | None, before: Mapping[str, Mapping[str, float]]) -> Text:
    """The chosen job's whole name, and where its time goes."""
    job = next((job for job in picture.jobs if job.job_id == job_id), None)
    if job is None:
        return Text()
    spent = ", ".join(shares(job.time, before.get(job.job_id, {}))[:_CAUSES]) or "no step in the last minute"
    line = Text(f"{job.job_id}", style="bold")
    line.append(f": {spent}", style="not bold")
    if picture.about == job.job_id and picture.no_ranks:
        line.append(f"\n{picture.no_ranks}", style="not bold")
    return line


def rank_rows(picture: Picture, job_id: str | None) -> list[Row]:
    """A row a rank, those to blame first."""
    if picture.about != job_id:
        return []
    guilty = {rank for f in picture.findings if f.job_id == job_id for rank in f.ranks}
    ranks = sorted(picture.ranks, key=lambda r: (r.rank not in guilty, r.rank))
    return [(_rank_words(r, r.rank in guilty), r.rank in guilty) for r in ranks]


def _rank_words(r: RankRow, guilty: bool) -> tuple[str, ...]:
    if not r.watched:
        activity = "unwatched"
    elif not r.alive:
        activity = f"gone: {r.exit_status or 'how is unknown'}" if r.activity != "done" else "done"
    else:
        activity = f"{r.activity}, stopped" if r.process_state in ("T", "t") else r.activity
    inside = f"{r.op} #{r.sequence}" if r.op else r.phase
    return (
        f"{'!' if guilty else ' '} {r.rank}",
        shortened(r.host, _HOST_NAME),
        activity,
        inside if r.alive else "",
        duration(r.state_seconds),
        f"{r.step:,}",
        duration(r.self_seconds),
        duration(r.exposed_seconds),
    )


def shares(time: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Where time went since `before`, the most first: "forward 41%"; all of it where the account began anew since."""
    grown = {cause: seconds - before.get(cause, 0.0) for cause, seconds in time.items()}
    if any(seconds < 0 for seconds in grown.values()):
        grown = dict(time)
    total = sum(grown.values())
    most = sorted(grown.items(), key=lambda item: -item[1])
    return [f"{cause} {seconds / total:.0%}" for cause, seconds in most if seconds > 0.005 * total] if total > 0 else []


def shortened(name: str, room: int) -> str:
    """Its beginning and its end, where it does not fit: both tell jobs apart."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[-end:]}"


def still_chosen(picture: Picture, chosen: str | None) -> str | None:
    """The job that was chosen; where it is gone, the first one."""
    jobs = [job.job_id for job in picture.listed]
    return chosen if chosen in jobs else jobs[0] if jobs else None


def _clock(unix_seconds: float) -> str:
    return f"{datetime.fromtimestamp(unix_seconds, UTC):%H:%M:%S} UTC"
