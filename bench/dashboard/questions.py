"""What each view asks of Prometheus, asked directly: what an answer costs before anybody draws it."""

from __future__ import annotations

import statistics
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.dashboard import concluded
from bench.dashboard.scene import JOB, SLOW, Scene
from dashboards import glance, marks, side
from dashboards.address import RANGES, Address, Span
from dashboards.panels import VIEWS, Panel
from dashboards.panels import ranks as of_ranks
from dashboards.panels import scaling as of_scaling
from dashboards.queries import Hub, Prometheus, quoted
from dashboards.views import host, hosts, waterfall
from dashboards.views.context import ViewContext

GLANCE = "every view"
ONE_RANK = "one rank"
_TIMES = 3


@dataclass(frozen=True)
class Question:
    """PromQL for a range, or for the span's end."""

    name: str
    promql: str
    span: Span
    is_range: bool = True


@dataclass(frozen=True)
class Cost:
    """Of an answer."""

    question: Question
    seconds: float  # the median of some
    num_bytes: int


def of_views(scene: Scene, range_: str, now: float) -> dict[str, list[Question]]:
    """By view. The first are those that all of them ask."""
    address = Address(job_id=JOB, rank=scene.culprit, range=range_)
    job = replace(concluded.job(scene, SLOW), step_seconds=0.4, time={})  # no time: all of the range is asked for
    context = ViewContext(glance.Glance(time=now, job_id=JOB, job=job), address, Prometheus(), Hub())
    seconds = f"{RANGES[range_]}s"

    def instants(**promql: str) -> list[Question]:
        return [
            Question(name, text.replace("$job", quoted(JOB)).replace("$range", seconds), context.span, is_range=False)
            for name, text in promql.items()
        ]

    def panels(every: tuple[Panel, ...]) -> list[Question]:
        return [_panel(panel, context) for panel in every]

    tiles = {"host_gpus": hosts.GPUS, "host_processors": hosts.PROCESSORS, "host_ranks": hosts.RANKS}
    of_job = f" and on (host) {context.selection(context.span).hosts}"
    names = instants(hosts=host.HOSTS)
    at = [Question("activities", marks.ACTIVITIES.replace("$job", quoted(JOB)), context.span)]
    now = instants(waterfall=waterfall.SPENT, rank_tiles=glance.RANKS)
    return {
        GLANCE: instants(jobs=glance.JOBS, agents=glance.AGENTS, heartbeat=glance.HEARTBEAT, firing=glance.FIRING),
        "cluster": instants(**tiles),
        "job": [*panels((*VIEWS["job"], of_scaling.EFFICIENCY)), *at, *now],
        "ranks": [*names, *panels(of_ranks.PANELS)],
        ONE_RANK: [*names, *panels((*of_ranks.PANELS, *of_ranks.ONE_RANK))],
        "communication": panels(VIEWS["communication"]),
        "scaling": [*panels(VIEWS["scaling"]), *at],
        "hardware": [
            *names,
            *instants(**{name: promql + of_job for name, promql in tiles.items()}),
            *panels(VIEWS["hardware"]),
        ],
        "compare": instants(**{f"side_{number}": promql for number, promql in enumerate(side.QUESTIONS)}),
    }


def ask(url: str, questions: list[Question]) -> Iterator[Cost]:
    """Each of them some times."""
    for question in questions:
        spent, num_bytes = [], 0
        for _ in range(_TIMES):
            began = time.perf_counter()
            num_bytes = len(_answer(url, question))
            spent.append(time.perf_counter() - began)
        yield Cost(question, statistics.median(spent), num_bytes)


def _panel(panel: Panel, context: ViewContext) -> Question:
    """As dashboards/views/panel.py asks for it."""
    rows = panel.shape == "rows"
    span = context.rows_span if rows else context.span
    return Question(panel.key, panel.query(context.selection(span, is_recorded=panel.is_recorded)), span)


def _answer(url: str, question: Question) -> bytes:
    span = question.span
    when = {"start": span.start, "end": span.end, "step": span.resolution} if question.is_range else {"time": span.end}
    endpoint = "query_range" if question.is_range else "query"
    query = urllib.parse.urlencode({"query": question.promql, **when})
    with urllib.request.urlopen(f"{url}/api/v1/{endpoint}?{query}", timeout=60) as answer:
        return bytes(answer.read())
