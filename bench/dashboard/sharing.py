"""The queries and CPU time of a crowd of viewers, compared with one viewer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from bench.dashboard import sessions
from bench.dashboard.browser import View
from bench.dashboard.serving import Server, query_totals
from bench.processes import cpu_seconds
from dashboards.address import REFRESH_SECONDS
from zmon.stats import quantile

SECONDS = 20.0  # of each measurement


@dataclass(frozen=True)
class Crowd:
    """The measurements of several viewers over SECONDS."""

    name: str
    num_lost: int  # viewers whose connection broke or timed out
    queries: float  # of all viewers to Prometheus, in one refresh interval
    refresh_ratio: float  # refreshes that happened ÷ refreshes that were due
    median_seconds: float | None  # of a refresh; None: none happened
    p95_seconds: float | None
    dashboard_core: float  # CPU time as a ratio of one core
    prometheus_core: float


def measure_crowds(prometheus: Server, dashboard: Server, views: Sequence[View], viewers: int) -> list[Crowd]:
    """Measure one viewer of the job, a crowd of viewers of the job, and a crowd on all views."""
    job = next(view for view in views if view.name == "job")
    return [
        _measure(prometheus, dashboard, "1 on the job", [job]),
        _measure(prometheus, dashboard, f"{viewers} on the job", [job] * viewers),
        _measure(prometheus, dashboard, f"{viewers} on all views", list(islice(cycle(views), viewers))),
    ]


def _measure(prometheus: Server, dashboard: Server, name: str, views: list[View]) -> Crowd:
    with sessions.watching(dashboard.url, [(view.path, dict(view.params)) for view in views]) as crowd:
        time.sleep(2 * REFRESH_SECONDS)
        crowd.take_refreshes()
        queries_before = query_totals(prometheus).num_queries
        dashboard_before, prometheus_before = cpu_seconds(dashboard.process), cpu_seconds(prometheus.process)
        began_at = time.monotonic()
        time.sleep(SECONDS)
        elapsed = time.monotonic() - began_at
        seconds = crowd.take_refreshes()
        num_due = elapsed / REFRESH_SECONDS
        return Crowd(
            name=name,
            num_lost=crowd.num_lost,
            queries=(query_totals(prometheus).num_queries - queries_before) / num_due,
            refresh_ratio=len(seconds) / num_due / len(views),
            median_seconds=quantile(seconds, 0.5),
            p95_seconds=quantile(seconds, 0.95),
            dashboard_core=(cpu_seconds(dashboard.process) - dashboard_before) / elapsed,
            prometheus_core=(cpu_seconds(prometheus.process) - prometheus_before) / elapsed,
        )
