"""The list of hosts that are culprits of incidents again and again. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

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
    causes = Counter(summary.cause for summary in sorted(summaries, key=lambda summary: summary.cause))
    cost = sum(costs) if costs else None
    return Offender(host, len(summaries), dict(causes.most_common()), cost, last.onset, last.id)
