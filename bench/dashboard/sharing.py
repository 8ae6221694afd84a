"""What a crowd asks of Prometheus, and takes of the machine, beside what one viewer does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from bench.dashboard import sessions
from bench.dashboard.browser import View
from bench.dashboard.serving import Server, answered
from dashboards.address import REFRESH_SECONDS
from zmon.stats import quantile

SECONDS = 20.0


@dataclass(frozen=True)
class Crowd:
    """So many viewers over some time."""

    who: str
    viewers: int
    lost: int  # of these, whom the server let down
    queries: float  # of Prometheus, for each time a page is due to be fresh
    refreshes: float  # of those that were due, how many came
    median_seconds: float | None  # of a refresh
    slow_seconds: float | None  # the slowest of twenty
    dashboard_core: float
    prometheus_core: float


def shared(prometheus: Server, dashboard: Server, views: Sequence[View], viewers: int) -> list[Crowd]:
    """One who looks at the job, a crowd that does, and a crowd that looks at everything."""
    job = next(view for view in views if view.name == "job")
    return [
        _watched(prometheus, dashboard, "one, at the job", [job]),
        _watched(prometheus, dashboard, f"{viewers}, at the job", [job] * viewers),
        _watched(prometheus, dashboard, f"{viewers}, at all views", list(islice(cycle(views), viewers))),
    ]


def _watched(prometheus: Server, dashboard: Server, who: str, views: list[View]) -> Crowd:
    with sessions.watching(dashboard.url, [(view.path, dict(view.params)) for view in views]) as crowd:
        time.sleep(2 * REFRESH_SECONDS)
        crowd.refreshed()
        asked, spent, began = answered(prometheus)[0], _spent(dashboard, prometheus), time.monotonic()
        time.sleep(SECONDS)
        lasted = time.monotonic() - began
        took, due = crowd.refreshed(), lasted / REFRESH_SECONDS
        core = [(now - before) / lasted for now, before in zip(_spent(dashboard, prometheus), spent, strict=True)]
        queries = (answered(prometheus)[0] - asked) / due
    median, slow = quantile(took, 0.5), quantile(took, 0.95)
    return Crowd(who, len(views), crowd.lost, queries, len(took) / due / len(views), median, slow, *core)


def _spent(*servers: Server) -> list[float]:
    return [sum(server.process.cpu_times()[:2]) for server in servers]
