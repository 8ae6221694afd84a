"""The output of `zmon incident --by host`: the number, the causes and the cost of the incidents of each host."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zmon.format import UNKNOWN
from zmon.hub.incidents import words
from zmon.schema.incident import IncidentSummary


@dataclass(frozen=True, slots=True)
class Offender:
    """One host with its incidents. An incident counts once for each host that it names."""

    host: str
    incidents: int
    causes: dict[str, int]  # the most common first
    lost_gpu_hours: float | None  # None: unknown for all incidents, as in a job on CPUs
    last: float  # unix seconds
    last_incident: str


def by_host(summaries: Iterable[IncidentSummary]) -> list[Offender]:
    """Return the hosts, worst first: by number of incidents, then by lost GPU-hours, then by the latest incident."""
    incidents_by_host: defaultdict[str, list[IncidentSummary]] = defaultdict(list)
    for summary in summaries:
        for host in set(summary.hosts):
            incidents_by_host[host].append(summary)
    offenders = [_offender(host, incidents) for host, incidents in incidents_by_host.items()]
    return sorted(offenders, key=lambda o: (-o.incidents, -(o.lost_gpu_hours or 0.0), -o.last, o.host))


def _offender(host: str, summaries: list[IncidentSummary]) -> Offender:
    costs = [summary.lost_gpu_hours for summary in summaries if summary.lost_gpu_hours is not None]
    last = max(summaries, key=lambda summary: summary.onset)
    causes = Counter(sorted(summary.cause for summary in summaries))  # causes with equal numbers stay sorted by name
    cost = sum(costs) if costs else None
    return Offender(host, len(summaries), dict(causes.most_common()), cost, last.onset, last.id)


def offenders_table(hosts: Sequence[Offender]) -> RenderableType:
    """Return a row per host, in the given order."""
    if not hosts:
        return Text("no incidents that name a host")
    table = Table(box=None, pad_edge=False)
    for column in ("host", "incidents", "GPU-hours lost", "last", "causes"):
        is_number = column in ("incidents", "GPU-hours lost")
        table.add_column(column, overflow="fold", justify="right" if is_number else "left", no_wrap=column == "last")
    for row in hosts:
        causes = ", ".join(f"{cause} × {number}" for cause, number in row.causes.items())
        cost = UNKNOWN if row.lost_gpu_hours is None else f"{row.lost_gpu_hours:,.2f}"
        host = Text(words.plain(row.host))
        table.add_row(host, str(row.incidents), cost, words.day(row.last), Text(words.plain(causes)))
    return table
