"""The queries of each view to Prometheus, measured directly, without the dashboard."""

from __future__ import annotations

import statistics
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.dashboard import hub_answers
from bench.dashboard.recorded import STAND_OUT
from bench.dashboard.scene import JOB, SLOW, Scene
from dashboards import glance, gpu_time, marks, side
from dashboards.address import RANGES, Address, Span
from dashboards.panels import VIEWS, Panel
from dashboards.panels import ranks as rank_panels
from dashboards.panels import scaling as scaling_panels
from dashboards.queries import Hub, Prometheus, quoted
from dashboards.views import hosts, tiles, time_bar
from dashboards.views.context import ViewContext

GLANCE = "every view"
ONE_RANK = "one rank"
HOST_TILES = {
    "host_gpus": hosts.GPUS,
    "host_processors": hosts.PROCESSORS,
    "host_ranks": hosts.RANKS,
    "hosts": hosts.NUM_HOSTS,
}
_REPEATS = 3
_STEP_SECONDS = 0.4  # a step of the job


@dataclass(frozen=True)
class Query:
    """A PromQL query over a span, or at the end of the span."""

    name: str
    promql: str
    span: Span
    is_range: bool = True


@dataclass(frozen=True)
class Cost:
    """The cost of a query."""

    query: Query
    seconds: float  # median
    num_bytes: int


def by_view(scene: Scene, range_: str, now: float) -> dict[str, list[Query]]:
    """Return the queries of each view. The first entry has the queries that all views send."""
    address = Address(job_id=JOB, rank=scene.culprit, range=range_)
    # With an empty time account, the queries cover the whole range.
    job = replace(hub_answers.job(scene, SLOW), step_seconds=_STEP_SECONDS, time={})
    context = ViewContext(
        glance.Glance(time=now, job_id=JOB, job=job, intervals=scene.intervals), address, Prometheus(), Hub()
    )
    seconds = f"{RANGES[range_]}s"

    def instants(**promql: str) -> list[Query]:
        return [
            Query(name, text.replace("$job", quoted(JOB)).replace("$range", seconds), context.span, is_range=False)
            for name, text in promql.items()
        ]

    def charts(panels: tuple[Panel, ...]) -> list[Query]:
        return [query for panel in panels for query in _chart(panel, context, scene)]

    def host_tiles(of_hosts: str) -> list[Query]:
        fleet = hosts.Fleet(join=of_hosts)
        queries = dict(HOST_TILES)
        if len(scene.hosts) > hosts.MAX_HOSTS:
            fleet = fleet.limited_to(tuple(scene.hosts[:STAND_OUT]))
            queries |= {"least_busy": hosts.LEAST_BUSY, "all_hosts": hosts.ALL_HOSTS}
        return instants(**{name: fleet.query(promql) for name, promql in queries.items()})

    recent = replace(context.selection(context.span), range=hosts.RECENT_SECONDS)
    hosts_of_job = (recent if len(scene.hosts) > hosts.MAX_HOSTS else context.selection(context.span)).hosts
    names = instants(hosts=hosts.NAMES)
    activities = [Query("activities", marks.ACTIVITIES.replace("$job", quoted(JOB)), context.span)]
    at_end = instants(time_bar=time_bar.TIME_PER_STEP)
    if scene.num_ranks <= tiles.MAX_RANKS:  # for a larger job, the page asks the hub
        at_end += instants(rank_tiles=glance.RANKS)
    return {
        GLANCE: instants(
            jobs=glance.JOBS, agents=glance.AGENTS, heartbeat=glance.heartbeat(scene.intervals),
            made_for=glance.INTERVALS, firing=glance.FIRING,
        ),
        "cluster": [*charts(VIEWS["cluster"]), *instants(last_day=gpu_time.LAST_DAY, day_before=gpu_time.DAY_BEFORE)],
        "job": [*charts((*VIEWS["job"], scaling_panels.EFFICIENCY)), *activities, *at_end],
        "ranks": [*names, *charts(rank_panels.PANELS)],
        ONE_RANK: [*names, *charts((*rank_panels.PANELS, *rank_panels.ONE_RANK))],
        "communication": charts(VIEWS["communication"]),
        "scaling": [*charts(VIEWS["scaling"]), *activities],
        "hardware": [*names, *host_tiles(f" and on (host) {hosts_of_job}"), *charts(VIEWS["hardware"])],
        "compare": instants(**{f"side_{number}": promql for number, promql in enumerate(side.QUERIES)}),
    }  # fmt: skip


def measure(url: str, queries: list[Query]) -> Iterator[Cost]:
    """Send each query _REPEATS times. Yield its median time and the size of its answer."""
    for query in queries:
        seconds = []
        num_bytes = 0
        for _ in range(_REPEATS):
            began_at = time.perf_counter()
            num_bytes = len(_answer(url, query))
            seconds.append(time.perf_counter() - began_at)
        yield Cost(query, statistics.median(seconds), num_bytes)


def _chart(panel: Panel, context: ViewContext, scene: Scene) -> list[Query]:
    """Return the queries of a chart, as dashboards/views/panel.py builds them."""
    span = context.rows_span if panel.shape == "rows" else context.span
    selection = context.selection(span, panel.source)
    if not panel.has_too_many_hosts(selection):
        return [Query(panel.key, panel.query(selection), span)]
    hosts_promql = panel.fill(selection.variables(), panel.outlier_promql)
    selection = replace(selection, outlier_hosts=tuple(scene.hosts[:STAND_OUT]))
    return [
        Query(f"{panel.key}, hosts", hosts_promql, span, is_range=False),
        Query(panel.key, panel.query(selection), span),
    ]


def _answer(url: str, query: Query) -> bytes:
    span = query.span
    times = {"start": span.start, "end": span.end, "step": span.resolution} if query.is_range else {"time": span.end}
    endpoint = "query_range" if query.is_range else "query"
    parameters = urllib.parse.urlencode({"query": query.promql, **times})
    with urllib.request.urlopen(f"{url}/api/v1/{endpoint}?{parameters}", timeout=60) as answer:
        return bytes(answer.read())
