"""The series that Prometheus would have for the simulated job, with names and labels from zmon's own /metrics pages.

Series of agents and hub come from real pages of /metrics, generated from a thousand seconds of each kind. Series of
recording rules come from recorded.py, at the intervals of the rules. Most series of agents that no chart over time
reads have samples only in the last minutes. For a large job, most agents have only the series that pages read at an
instant, and most GPUs have samples only in the last minutes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from bench.cluster import RANKS_PER_AGENT, sources
from bench.dashboard import hub_answers
from bench.dashboard.recorded import Values, constant, recorded
from bench.dashboard.scene import JOB, KINDS, SIMULATED_SECONDS, SLOW, Scene
from dashboards.panels import ALL
from dashboards.rules.render import recording_seconds
from zmon import metrics
from zmon.metrics import STEP_SECONDS_BOUNDS
from zmon.schema.api.agent import AgentReport
from zmon.schema.scraping import AGENT, HUB, MADE_FOR

RECENT_SECONDS = 600  # instant queries read only the last minutes of a series, so few samples suffice
LARGE_RECENT_SECONDS = 3600  # tiles of hosts at an earlier moment read the GPUs of that moment
# Seconds between two samples: below the five minutes for which an instant query finds a sample.
RECENT_EVERY, LARGE_RECENT_EVERY = 30, 240
AT_AN_INSTANT = (  # the series of every agent that pages read at an instant
    "zmon_rank_info", "zmon_steps_total", "zmon_lease_overdue_seconds", "zmon_last_step_timestamp_seconds",
    "zmon_collective_inflight_seconds", "zmon_activity",
)  # fmt: skip
IN_DETAIL = 4  # ranks with complete series, because a view of one rank reads them
_EVENT_AGE_SECONDS = 0.2  # in series of the time of the last event, which is never older
_POOL = np.random.default_rng(0).random(1 << 16)  # of the noise
_JITTER = 0.8  # maximum noise as a ratio of an interval; below 1, so that a counter never decreases
_Key = tuple[str, tuple[tuple[str, str], ...]]  # the name of a series and its labels


@dataclass(frozen=True, slots=True)
class Series:
    """One series with its value, or its growth per second, for each kind of time. NaN means no samples."""

    name: str
    labels: dict[str, str]
    by_kind: tuple[float, ...]
    grows: bool
    every: int  # seconds
    is_recent: bool = False  # True: it has samples only in the last minutes

    @property
    def head(self) -> str:
        """The start of its lines."""
        return f"{self.name}{{{','.join(f'{name}={json.dumps(value)}' for name, value in self.labels.items())}}} "

    def times(self, scene: Scene, start: int, end: int) -> NDArray[np.int64]:
        """Return the times of its samples from `start` to before `end`."""
        recent = LARGE_RECENT_SECONDS if scene.is_large else RECENT_SECONDS
        first = max(start, scene.now - recent if self.is_recent else scene.start)
        return np.arange(-(-first // self.every) * self.every, min(end, scene.end), self.every)

    def only_value(self) -> float | None:
        """Return the value of a series that is always the same whole number, else None."""
        if self.grows or self.name.endswith("_timestamp_seconds") or len(set(self.by_kind)) > 1:
            return None
        return self.by_kind[0] if _is_state(np.asarray(self.by_kind)).all() else None

    def values(self, scene: Scene, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the samples at these times. Their noise is the same in every run."""
        samples: NDArray[np.float64]
        if self.name.endswith("_timestamp_seconds"):
            samples = np.subtract(times, _EVENT_AGE_SECONDS)
        elif self.grows:  # all counters of a page are scraped at the same moment
            one_page = self.labels.get("instance") or self.labels.get("rank") or self.head
            scraped = times - _JITTER * self.every * _noise(one_page, times, self.every)
            samples = np.nan_to_num(self.by_kind) @ scene.seconds_by_kind(scraped).clip(0)
        else:
            samples = np.asarray(self.by_kind)[scene.kinds(times)]
            noise = 0.97 + 0.06 * _noise(self.head, times, self.every)
            samples = np.where(_is_state(samples), samples, samples * noise)
        return samples


def _noise(name: str, times: NDArray[np.int64], every: int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each time, the same in every run."""
    noise: NDArray[np.float64] = _POOL[(times // every + zlib.crc32(name.encode())) % len(_POOL)]
    return noise


def _is_state(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return True for small whole numbers. They are states or counts, and get no noise."""
    is_state: NDArray[np.bool_] = (values == np.rint(values)) & (np.abs(values) < 2000)
    return is_state


def everything(scene: Scene) -> Iterator[Series]:
    """Yield all series of the scene."""
    yield from _agents(scene)
    target = {"job": "zmon-hub", "instance": "hub:9781"}
    hub_seconds = scene.intervals.hub_seconds
    for name, labels, values, grows in _parse([_hub(scene, kind) for kind in KINDS]):
        yield Series(name, labels | target, values, grows, every=hub_seconds)
    alert = {"alertname": "ZmonFindingWarning", "alertstate": "firing", "severity": "warning", "job_id": JOB}
    yield Series("ALERTS", alert, (nan, 1.0, nan), grows=False, every=hub_seconds)
    rule_seconds = recording_seconds(scene.intervals)
    for daemon, seconds in ((AGENT, scene.intervals.agents_seconds), (HUB, hub_seconds)):
        values = constant(seconds)
        yield Series(MADE_FOR, {"daemon": daemon}, values, grows=False, every=rule_seconds[MADE_FOR])
    culprit_host = scene.hosts[scene.culprit // RANKS_PER_AGENT]
    for name, labels, values, grows in recorded(scene):
        is_read_over_time = name.endswith(":on") or not name.startswith("zmon:gpu_") or labels["host"] == culprit_host
        is_recent = scene.is_large and not is_read_over_time
        every = LARGE_RECENT_EVERY if is_recent else rule_seconds[name]
        yield Series(name, labels, values, grows, every, is_recent)


def _agents(scene: Scene) -> Iterator[Series]:
    """Yield the series of all agents."""
    over_time = {name for panel in ALL if "$rank" not in panel.promql for name in panel.series()}
    detailed = {scene.culprit, *range(min(scene.num_ranks, IN_DETAIL - 1))}
    ranks_in_detail = {str(rank) for rank in detailed}
    in_detail = {scene.hosts[rank // RANKS_PER_AGENT] for rank in detailed}
    recent_every = LARGE_RECENT_EVERY if scene.is_large else RECENT_EVERY
    first_page = list(_parse([_agent(scene, kind, scene.hosts[0]) for kind in KINDS]))
    at_an_instant = [series for series in first_page if series.name in AT_AN_INSTANT]
    for number, host in enumerate(scene.hosts):
        target = {"job": "zmon-agent", "instance": f"{host}:9780"}
        if scene.is_large and host not in in_detail:
            page: Iterable[Values] = (_on_host(series, host, number) for series in at_an_instant)
        else:
            page = _parse([_agent(scene, kind, host) for kind in KINDS])
        for name, labels, values, grows in page:
            is_complete = (not scene.is_large and name in over_time) or labels.get("rank") in ranks_in_detail
            every = scene.intervals.agents_seconds if is_complete else recent_every
            yield Series(name, labels | target, values, grows, every, is_recent=not is_complete)
        yield Series("up", target, constant(1.0), grows=False, every=recent_every, is_recent=True)


def _on_host(series: Values, host: str, number: int) -> Values:
    """Return a series of the first host as another host has it."""
    rank = int(series.labels["rank"]) + number * RANKS_PER_AGENT
    return series._replace(labels=series.labels | {"host": host, "rank": str(rank)})


def _parse(pages: Iterable[bytes]) -> Iterator[Values]:
    """Yield the series of the pages, one page for each kind. The value of a counter is its growth per second."""
    by_kind: dict[_Key, list[float]] = {}
    growing: set[_Key] = set()
    for kind, page in enumerate(pages):
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                key = sample.name, tuple(sample.labels.items())
                grows = family.type in ("counter", "histogram")
                if grows:
                    growing.add(key)
                by_kind.setdefault(key, [nan] * len(KINDS))[kind] = sample.value / (SIMULATED_SECONDS if grows else 1)
    for key, values in by_kind.items():
        yield Values(key[0], dict(key[1]), tuple(values), key in growing)


def _agent(scene: Scene, kind: int, host: str) -> bytes:
    number = scene.hosts.index(host)
    numbers = range(number * RANKS_PER_AGENT, min((number + 1) * RANKS_PER_AGENT, scene.num_ranks))
    ranks = tuple(scene.rank(kind, rank) for rank in numbers)
    report = AgentReport(host, scene.now, "bench", ranks, scene.sample(kind, host), sources(scene.now))
    return metrics.agent_page(report, 0.01 * SIMULATED_SECONDS, 80 << 20)


def _hub(scene: Scene, kind: int) -> bytes:
    job = hub_answers.job(scene, kind)
    steps = SIMULATED_SECONDS / job.step_seconds if job.step_seconds else 0.0
    slowest = [0] * (len(STEP_SECONDS_BOUNDS) + 1)
    for bound, share in ((8, 0.9), (9, 0.1)) if kind != SLOW else ((9, 0.95), (10, 0.05)):
        slowest[bound] = round(share * steps)
    histogram = {JOB: (slowest, SIMULATED_SECONDS * bool(steps))}
    findings = [hub_answers.finding(scene)] if kind == SLOW else []
    state = metrics.HubPage(
        jobs=[job], histograms=histogram, findings=findings, pass_seconds=0.4, last_pass_time=scene.now, version="bench"
    )
    return metrics.hub_page(state)
