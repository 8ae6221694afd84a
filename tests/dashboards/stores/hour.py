"""An hour of a cluster with a job, three agents and a hub, as samples of scrapes, with a fault for each alert.

Values come from the benchmark of the dashboard, which takes them from real pages of `/metrics`. Agents are scraped
every 15 s and the hub every 2 s, each at its own moment. A failed scrape ends the series of its page, as in Prometheus.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.cluster import RANKS_PER_AGENT
from bench.dashboard.scene import JOB, Scene
from bench.dashboard.synthetic import Series, everything
from tests.dashboards.stores.remote_write import STALE, Samples

AGENT_SECONDS, HUB_SECONDS = 15, 2
START = 1_700_000_000 // 3600 * 3600
SECONDS = 3600
LAG_SECONDS = 1  # the age of a counter when it is scraped: it grows when a step ends
RULES_OFFSET = 1  # Prometheus evaluates each group at a moment of its own, so charts have their points between samples
SCENE = Scene(num_ranks=24, hours=1 / 3, now=START + SECONDS - 600, ahead_seconds=600)
AGENT, HUB = "zmon-agent", "zmon-hub"
Labels = dict[str, str]
Period = Callable[[np.ndarray], np.ndarray]  # True for each minute within it


def between(first: float, last: float) -> Period:
    """Return the period from minute `first` to before minute `last`."""
    return lambda minutes: (first <= minutes) & (minutes < last)


DOWN = {  # by instance: the periods in which the daemon does not answer
    "node-000:9780": (between(5, 5.25), between(8, 9.7), between(40, 42)),
    "node-001:9780": (between(5, 5.25), between(40, 42)),
    "node-002:9780": (between(5, 5.25), between(40, 42)),
    "hub:9781": (between(6, 6.05), between(12, 14.5)),
}


@dataclass(frozen=True)
class Fault:
    """A series that has the value `bad` during a period, and the value `usual` before and after it."""

    labels: Labels
    usual: float | None  # None: there is no series
    bad: float
    when: Period


def _of_hub(name: str, /, **labels: str) -> Labels:
    return {"__name__": name, "job": HUB, "instance": "hub:9781", **labels}


def _finding(detector: str, cause: str, severity: str, rank: str = "3") -> Labels:
    host = "node-000" if rank else ""
    labels = {"detector": detector, "cause": cause, "severity": severity, "rank": rank, "host": host}
    return _of_hub("zmon_finding", job_id=JOB, **labels)


def _of_agent(name: str, /, **labels: str) -> Labels:
    return {"__name__": name, "job": AGENT, "instance": "node-001:9780", **labels}


FAULTS = (
    Fault(_finding("stall", "rank_frozen", "critical"), None, 1, between(18, 19)),
    Fault(_finding("stall", "rank_frozen", "critical", "4"), None, 1, between(18.5, 20)),
    Fault(_finding("divergence", "divergence", "critical", ""), None, 1, between(21, 22)),
    Fault(_finding("imbalance", "lookup_skew", "warning", ""), None, 1, between(19, 23)),
    Fault(_finding("efficiency", "below_baseline", "warning", ""), None, 1, between(24, 26)),
    Fault(_of_agent("zmon_config_reload_success"), 1, 0, between(26, 33)),
    Fault(_of_agent("zmon_jobs_left_out"), 0, 7, between(26, 33)),
    Fault(_of_agent("zmon_series_left_out"), 0, 7, between(26, 33)),
    # no fault by itself: the GPUs whose holder leaves them idle in the next series
    Fault(_of_agent("zmon_held_gpus", host="node-001", holder="slurm-7", user="ann"), 8, 8, between(0, 0)),
    Fault(
        _of_agent("zmon_held_idle_seconds", host="node-001", holder="slurm-7", kind="ended"), None, 900, between(33, 35)
    ),
    Fault(_of_agent("zmon_boxes_unread", host="node-001", kind="version"), 0, 2, between(35, 37)),
    Fault(
        _of_hub("zmon_hub_acts_total", act="kill_culprit", cause="rank_frozen", result="acted"), 0, 1, between(43, 60)
    ),
    Fault(_of_hub("zmon_hub_acts_total", act="end_job", cause="compute_hang", result="refused"), 0, 1, between(44, 60)),
    Fault(_of_hub("zmon_hub_acts_stopped", name="all", by="breaker"), None, 1, between(45, 47)),
)
OVERDUE_MINUTE = 12.6
OVERDUE = between(OVERDUE_MINUTE, 14.2)  # while the hub is down
REPLACED = {fault.labels["__name__"] for fault in FAULTS} | {"up", "zmon_lease_overdue_seconds"}


def scrapes(instance: str, every: int) -> np.ndarray:
    """Return the times of all scrapes of a target."""
    offset = zlib.crc32(instance.encode()) % (every * 1000) / 1000
    return START + offset + every * np.arange(SECONDS // every)


def answers(instance: str, times: np.ndarray) -> np.ndarray:
    """Return True for each scrape that succeeds."""
    minutes = (times - START) / 60
    return ~np.any([down(minutes) for down in DOWN[instance]], axis=0)


def hour() -> Iterator[tuple[Labels, Samples]]:
    """Yield all scraped series: labels with `job` and `instance`, and samples."""
    for entry in everything(SCENE):
        if "instance" not in entry.labels or entry.name in REPLACED or not entry.name.startswith("zmon_"):
            continue
        every = HUB_SECONDS if entry.labels["job"] == HUB else AGENT_SECONDS
        times = scrapes(entry.labels["instance"], every)
        values = replace(entry, every=LAG_SECONDS).values(SCENE, times.astype(int))
        yield {"__name__": entry.name, **entry.labels}, _ended(entry.labels["instance"], times, values)
    for instance in DOWN:
        is_hub = instance.startswith("hub")
        times = scrapes(instance, HUB_SECONDS if is_hub else AGENT_SECONDS)
        up = answers(instance, times)
        labels = {"__name__": "up", "job": HUB if is_hub else AGENT, "instance": instance}
        yield labels, [(float(t), float(v)) for t, v in zip(times, up, strict=True)]
    for fault in FAULTS:
        instance = fault.labels["instance"]
        times = scrapes(instance, HUB_SECONDS if instance.startswith("hub") else AGENT_SECONDS)
        usual = np.nan if fault.usual is None else fault.usual
        values = np.where(fault.when((times - START) / 60), fault.bad, usual)
        yield fault.labels, _ended(instance, times, values)
    for rank in range(SCENE.num_ranks):
        host = SCENE.hosts[rank // RANKS_PER_AGENT]
        times = scrapes(f"{host}:9780", AGENT_SECONDS)
        minutes = (times - START) / 60
        overdue = np.where(OVERDUE(minutes), 60 * (minutes - OVERDUE_MINUTE), 0.0)
        labels = {"job_id": JOB, "rank": str(rank), "host": host, "job": AGENT, "instance": f"{host}:9780"}
        yield {"__name__": "zmon_lease_overdue_seconds", **labels}, _ended(f"{host}:9780", times, overdue)


def recorded() -> Iterator[tuple[Labels, Samples]]:
    """Yield the series that the rules record, for the expressions that read them."""
    findings = [fault for fault in FAULTS if fault.labels["__name__"] == "zmon_finding"]
    yield from _recorded_of("zmon:finding:standing", findings, without=("job", "instance"))
    yield from _recorded_of("zmon:finding:alert", findings, without=("job", "instance", "cause", "rank", "host"))
    for entry in everything(SCENE):
        if "instance" not in entry.labels and entry.name.startswith("zmon:") and "finding" not in entry.name:
            is_of_ranks = entry.every == SCENE.intervals.recorded.seconds  # recorded for each rank, host or GPU
            every = AGENT_SECONDS if is_of_ranks else entry.every
            yield {"__name__": entry.name, **entry.labels}, _own_samples(entry, every)


def _recorded_of(name: str, findings: Sequence[Fault], without: Sequence[str]) -> Iterator[tuple[Labels, Samples]]:
    """Yield a series for each set of labels that the findings have without some, with samples while one is open."""
    times = np.arange(START + RULES_OFFSET, START + SECONDS, HUB_SECONDS)
    is_open = defaultdict(lambda: np.zeros(len(times), bool))
    for finding in findings:
        labels = {key: value for key, value in finding.labels.items() if key not in without}
        is_open[tuple(labels.items())] |= finding.when((times - START) / 60)
    for items, shown in is_open.items():
        yield dict(items) | {"__name__": name}, _with_ends(times, np.where(shown, 1.0, np.nan))


def _own_samples(entry: Series, every: int) -> Samples:
    times = np.arange(START + RULES_OFFSET, START + SECONDS, every)
    return _with_ends(times, replace(entry, every=LAG_SECONDS).values(SCENE, times))


def _ended(instance: str, times: np.ndarray, values: np.ndarray) -> Samples:
    return _with_ends(times, np.where(answers(instance, times), values, np.nan))


def _with_ends(times: np.ndarray, values: np.ndarray) -> Samples:
    """Return the samples, with a marker where the series ends. A NaN is no sample."""
    known = ~np.isnan(values)
    ends = ~known & np.concatenate([[False], known[:-1]])
    return [
        (float(time), STALE if end else float(value))
        for time, value, is_known, end in zip(times, values, known, ends, strict=True)
        if is_known or end
    ]
