"""The GPU time of all jobs: how much of it is ideal, how that changed in a day, and what incidents cost today."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboards.colours import COMPUTING
from dashboards.queries import Prometheus
from zmon.schema.finding import Finding
from zmon.schema.incident import IncidentSummary
from zmon.schema.job import JobView

DAY_SECONDS = 86400
# From the account that is recorded every five minutes: the counters of a day would be millions of samples.
LAST_DAY = "sum by (cause) (increase(zmon:job_gpu_seconds:total[1d]))"
DAY_BEFORE = "sum by (cause) (increase(zmon:job_gpu_seconds:total[1d] offset 1d))"
# The GPU-seconds so far of GPUs that are held and idle now. 0: there are none. No series: no agent knows who holds
# GPUs.
HELD_IDLE = """\
sum(
  max by (host, holder) (zmon_held_gpus)
  * on (host, holder) group_right () max by (host, holder, kind) (zmon_held_idle_seconds))
or sum(zmon_held_gpus) * 0"""
QUERIES = (LAST_DAY, DAY_BEFORE, HELD_IDLE)


@dataclass(frozen=True)
class IncidentCost:
    """The cost of the incidents of one day. `gpu_hours` leaves out the incidents whose cost is unknown."""

    gpu_hours: float
    num_incidents: int
    num_unknown: int


def seconds_of_jobs(jobs: Iterable[JobView]) -> dict[str, float]:
    """Return the GPU-seconds of these jobs by time category, over all their launches."""
    total: dict[str, float] = {}
    for job in jobs:
        for category, seconds in job.gpu_seconds.items():
            total[category] = total.get(category, 0.0) + seconds
    return total


def ideal_ratio(seconds_by_category: Mapping[str, float]) -> float | None:
    """Return the share of the time in which the median rank computes; None if there is no time."""
    total = sum(seconds_by_category.values())
    return sum(seconds_by_category.get(phase, 0.0) for phase in COMPUTING) / total if total > 0 else None


def ideal_of_day(prometheus: Prometheus, promql: str, now: float) -> float | None:
    """Return the ideal share of the day that `promql` reads, LAST_DAY or DAY_BEFORE; None if too little is recorded.

    Raises Unreachable.
    """
    samples = prometheus.query_at(promql, minute(now))
    return ideal_ratio({sample.labels["cause"]: sample.value for sample in samples})


def minute(now: float) -> int:
    """Round down to the minute, so that queries over days are sent once a minute."""
    return int(now) // 60 * 60


def lost_today(incidents: Iterable[IncidentSummary], findings: Iterable[Finding], now: float) -> IncidentCost:
    """Return the cost of the incidents that lasted into this day (UTC). The cost of an open one is in its finding."""
    midnight = now // DAY_SECONDS * DAY_SECONDS
    costs = {
        incident.id: incident.lost_gpu_hours
        for incident in incidents
        if incident.resolved is None or incident.resolved >= midnight
    }
    costs.update({finding.id: finding.lost_gpu_hours for finding in findings if finding.id in costs})
    known = [cost for cost in costs.values() if cost is not None]
    return IncidentCost(sum(known), len(costs), len(costs) - len(known))
