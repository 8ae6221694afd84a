"""The queries and CPU time of a crowd of viewers, compared with one viewer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from bench.dashboard import sessions
from bench.dashboard.browser import View
from bench.dashboard.serving import Server, query_totals
from dashboards.address import REFRESH_SECONDS
from zmon.stats import quantile

SECONDS = 20.0


@dataclass(frozen=True)
class Crowd:
    """The measurements of a number of viewers over some time."""

    name: str
    viewers: int
    lost: int  # viewers whose connection broke or timed out
    queries: float  # queries of all viewers to Prometheus in each refresh interval
    refreshes: float  # ratio of due refreshes that happened
    median_seconds: float | None  # median of a refresh
    slow_seconds: float | None  # p95 of a refresh
    dashboard_core: float  # share of one core
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
        queries_before = query_totals(prometheus)[0]
        cpu_before = _cpu_seconds(dashboard, prometheus)
        began_at = time.monotonic()
        time.sleep(SECONDS)
        elapsed = time.monotonic() - began_at
        seconds = crowd.take_refreshes()
        num_due = elapsed / REFRESH_SECONDS
        cpu_after = _cpu_seconds(dashboard, prometheus)
        cores = [(after - before) / elapsed for after, before in zip(cpu_after, cpu_before, strict=True)]
        queries = (query_totals(prometheus)[0] - queries_before) / num_due
    median, slow = quantile(seconds, 0.5), quantile(seconds, 0.95)
    return Crowd(name, len(views), crowd.lost, queries, len(seconds) / num_due / len(views), median, slow, *cores)


def _cpu_seconds(*servers: Server) -> list[float]:
    return [sum(server.process.cpu_times()[:2]) for server in servers]
