"""Every series that Prometheus would have of the job that is played: names and labels from zmon's own pages.

What agents and hub export is read off their real pages of /metrics, made of a thousand seconds of each kind; what
rules record is told here, once for each name in dashboards/rules, and recorded as often as they say.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path

import numpy as np
import yaml
from prometheus_client.parser import text_string_to_metric_families

import dashboards
from bench.cluster import RANKS_PER_AGENT
from bench.dashboard import concluded
from bench.dashboard.recorded import Found, recorded
from bench.dashboard.scene import JOB, KINDS, PLAYED_SECONDS, SLOW, Scene, sources
from dashboards.panels import ALL
from zmon import metrics
from zmon.metrics import STEP_SECONDS_BOUNDS
from zmon.schema.agent import AgentReport
from zmon.stack.config import INTERVAL

RULES = Path(dashboards.__file__).parent / "rules"
SCRAPE_SECONDS = 2  # as INTERVAL says
RECENT_SECONDS = 600  # what only instants are asked of: its last minutes are enough, and not every scrape of them
RECENT_EVERY = 30
IN_DETAIL = 4  # ranks whose own series are there for all the hours: what a look at one rank reads
AGO = 0.2  # of what happens all the time, seconds since it did
_POOL = np.random.default_rng(0).random(1 << 16)
_JITTER = 0.8  # of an interval: so far off is a counter, and does not fall


@dataclass(frozen=True, slots=True)
class Series:
    """One series: what it is, or by how much it grows a second, in time of each kind; nan: it is not there then."""

    name: str
    labels: dict[str, str]
    at: tuple[float, ...]
    grows: bool
    every: int  # seconds
    is_recent: bool = False  # only the last minutes of it are there

    @property
    def head(self) -> str:
        """As a line of it begins."""
        return f"{self.name}{{{','.join(f'{name}={json.dumps(value)}' for name, value in self.labels.items())}}} "

    def times(self, scene: Scene, start: int, end: int) -> np.ndarray:
        """When it has samples in there."""
        first = max(start, scene.now - RECENT_SECONDS if self.is_recent else scene.start)
        return np.arange(-(-first // self.every) * self.every, min(end, scene.end), self.every)

    def constant(self) -> float | None:
        """Its value, where that is always the same whole number."""
        is_even = not self.grows and len(set(self.at)) == 1 and _is_state(np.asarray(self.at)).all()
        return self.at[0] if is_even and not self.name.endswith("_timestamp_seconds") else None

    def values(self, scene: Scene, times: np.ndarray) -> np.ndarray:
        """Its samples at these times: even, but for some noise of its own, the same whenever they are made."""
        if self.name.endswith("_timestamp_seconds"):
            return times - AGO
        if self.grows:  # all that one page counts is scraped at the same moment
            one_page = self.labels.get("instance") or self.labels.get("rank") or self.head
            noise = _noise(one_page, times, self.every)
            return np.asarray(np.nan_to_num(self.at)) @ scene.spent(times - _JITTER * self.every * noise).clip(0)
        found = np.asarray(self.at)[scene.kinds(times)]
        noise = _noise(self.head, times, self.every)
        return np.where(_is_state(found), found, found * (0.97 + 0.06 * noise))


def _noise(of: str, times: np.ndarray, every: int) -> np.ndarray:
    return _POOL[(times // every + zlib.crc32(of.encode())) % len(_POOL)]


def _is_state(values: np.ndarray) -> np.ndarray:
    """Small whole numbers are states and numbers of things: they have no noise."""
    return (values == np.rint(values)) & (np.abs(values) < 2000)


def everything(scene: Scene) -> Iterator[Series]:
    """All of it."""
    over_time = {name for panel in ALL if "$rank" not in panel.promql for name in panel.series()}
    watched = {str(rank) for rank in (scene.culprit, *range(IN_DETAIL - 1))}
    for host in scene.hosts:
        target = {"job": "zmon-agent", "instance": f"{host}:9780"}
        for name, labels, at, grows in _told([_agent(scene, kind, host) for kind in KINDS]):
            whole = labels.get("rank") in watched or name in over_time
            yield Series(name, labels | target, at, grows, SCRAPE_SECONDS if whole else RECENT_EVERY, not whole)
        yield Series("up", target, (1.0,) * 3, False, RECENT_EVERY, True)
    target = {"job": "zmon-hub", "instance": "hub:9781"}
    for name, labels, at, grows in _told([_hub(scene, kind) for kind in KINDS]):
        yield Series(name, labels | target, at, grows, SCRAPE_SECONDS)
    alert = {"alertname": "ZmonFindingWarning", "alertstate": "firing", "severity": "warning", "job_id": JOB}
    yield Series("ALERTS", alert, (nan, 1.0, nan), False, SCRAPE_SECONDS)
    every = intervals()
    for name, labels, at, grows in recorded(scene):
        yield Series(name, labels, at, grows, every[name])


def intervals() -> dict[str, int]:
    """How often each rule records, by name."""
    return {
        rule["record"]: _seconds(group.get("interval", INTERVAL))
        for file in RULES.glob("*.yaml")
        if not file.name.endswith("_test.yaml")
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
        if "record" in rule
    }


def _seconds(words: str) -> int:
    return int(words[:-1]) * {"s": 1, "m": 60}[words[-1]]


def _told(pages: Iterable[bytes]) -> Iterator[Found]:
    """The series of a page, made once for each kind. What counts did so over all the seconds that were played."""
    at: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    growing = set()
    for kind, page in enumerate(pages):
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                key = sample.name, tuple(sample.labels.items())
                grows = family.type in ("counter", "histogram")
                growing.update({key} if grows else ())
                at.setdefault(key, [nan] * 3)[kind] = sample.value / (PLAYED_SECONDS if grows else 1)
    for key, values in at.items():
        yield key[0], dict(key[1]), tuple(values), key in growing


def _agent(scene: Scene, kind: int, host: str) -> bytes:
    place = scene.hosts.index(host)
    mine = range(place * RANKS_PER_AGENT, min((place + 1) * RANKS_PER_AGENT, scene.num_ranks))
    ranks = tuple(scene.rank(kind, rank) for rank in mine)
    report = AgentReport(host, scene.now, "bench", ranks, scene.sample(kind, host), sources(scene.now))
    return metrics.agent_page(report, 0.01 * PLAYED_SECONDS, 80 << 20)


def _hub(scene: Scene, kind: int) -> bytes:
    job = concluded.job(scene, kind)
    steps = PLAYED_SECONDS / job.step_seconds if job.step_seconds else 0.0
    slowest = [0] * (len(STEP_SECONDS_BOUNDS) + 1)
    for bound, share in ((8, 0.9), (9, 0.1)) if kind != SLOW else ((9, 0.95), (10, 0.05)):
        slowest[bound] = round(share * steps)
    histogram = {JOB: (slowest, PLAYED_SECONDS * bool(steps))}
    found = [concluded.finding(scene)] if kind == SLOW else []
    return metrics.hub_page([job], histogram, found, 0.4, scene.now, "bench")
