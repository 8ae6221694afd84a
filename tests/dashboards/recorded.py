"""One Prometheus with recorded blocks: a job of two ranks, and moments at which something is missing or fires.

Each moment has its own samples, ten minutes from the next one, so that a page opened at one of them sees no other. The
series of the job come from the pages of /metrics of a simulated cluster, as in the benchmark of the dashboard.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.dashboard.scene import JOB, Scene
from bench.dashboard.synthetic import everything
from dashboards.intervals import CLUSTER
from tests.dashboards.stores.servers import prometheus
from zmon.schema.scraping import AGENT, HUB, MADE_FOR

APART_SECONDS = 600  # more than the five minutes for which an instant query finds a sample
NOW = 1_700_002_800  # the job trains
EMPTY = NOW - 10 * APART_SECONDS  # agents and hub work, and there is no job
SILENT = EMPTY + APART_SECONDS  # like EMPTY, and the hub finishes no pass
SILENT_SELDOM = SILENT + APART_SECONDS  # like SILENT, and the rules are made for scrapes every 30 s
UNUSABLE = tuple(SILENT_SELDOM + number * APART_SECONDS for number in (1, 2, 3))  # the rules say no usable intervals
ALERTS = UNUSABLE[-1] + APART_SECONDS  # like EMPTY, and alerts fire; a job holds eight idle GPUs
LARGE = ALERTS + APART_SECONDS  # a job on NUM_HOSTS hosts; no GPU that somebody holds is idle
STORES_NOTHING = EMPTY - APART_SECONDS  # not one sample
ENDED = STORES_NOTHING - APART_SECONDS  # the last sample of a job that ended before the others began
NUM_HOSTS = 2_048
STANDS_OUT = "node-0007"
HISTORY_SECONDS = 1200  # before NOW: the range of the views and the windows of their charts
RECENT_SECONDS = 60  # before a moment: an instant query of a page may be about the last whole minute
WINDOW_SECONDS = 180  # before the other moments: the longest window in which a pass of the hub is looked for
INTERVALS: dict[int, Mapping[str, float]] = {  # moment → seconds by daemon that the rules are made for
    NOW: {AGENT: CLUSTER.agents_seconds, HUB: CLUSTER.hub_seconds},
    SILENT_SELDOM: {AGENT: 30, HUB: 30},
    UNUSABLE[0]: {AGENT: 15},
    UNUSABLE[1]: {AGENT: 15, HUB: 0},
    UNUSABLE[2]: {AGENT: float("nan"), HUB: 2},
}
FIRING = (("ZmonStall", "critical", "video"), ("ZmonB", "meltdown", JOB), ("ZmonC", "critical", JOB))
Samples = Iterable[tuple[float, float]]  # unix seconds and value


def samples() -> Iterator[tuple[str, Samples]]:
    """Yield each series of each moment, by its name and labels in the text format."""
    for moment in (EMPTY, SILENT, SILENT_SELDOM, *UNUSABLE, ALERTS, LARGE):
        times = range(moment - WINDOW_SECONDS, moment + 1, CLUSTER.hub_seconds)
        yield _head("up", job="zmon-agent", instance="node-1:9780"), [(moment, 1)]
        is_silent = moment in (SILENT, SILENT_SELDOM)
        passes = [(time, moment if is_silent else time) for time in times]
        yield _head("zmon_hub_last_pass_timestamp_seconds", job="zmon-hub", instance="hub:9781"), passes
    for moment, seconds in INTERVALS.items():
        for daemon, value in seconds.items():
            yield _head(MADE_FOR, daemon=daemon), [(moment, value)]
    for name, severity, job_id in FIRING:
        labels = {"alertname": name, "severity": severity, "job_id": job_id, "alertstate": "firing"}
        yield _head("ALERTS", **labels), [(ALERTS, 1)]
    held = {"host": "node-1", "holder": "slurm-7"}
    for moment in (ALERTS, LARGE):
        yield _head("zmon_held_gpus", user="ann", **held), [(moment - RECENT_SECONDS, 8)]
    yield _head("zmon_held_idle_seconds", kind="ended", **held), [(ALERTS - RECENT_SECONDS, 1800)]
    yield _head("zmon_job_info", job_id="ended", world_size="4"), [(ENDED, 1)]
    yield from _large()
    yield from _job()


def _large() -> Iterator[tuple[str, Samples]]:
    """Yield what pages read of many hosts: the first is idle, and the last one's GPU is the busiest."""
    for number in range(NUM_HOSTS):
        host = f"node-{number:04d}"
        busy = 0.9 * number / (NUM_HOSTS - 1)
        yield _head("zmon:host_busy:ratio", host=host), [(LARGE - RECENT_SECONDS, busy)]
        yield _head("zmon:gpu_utilization:ratio", host=host, gpu="0"), [(LARGE - RECENT_SECONDS, busy)]
        yield _head("zmon:job_host:ranks", host=host, job_id=JOB), [(LARGE - RECENT_SECONDS, 8)]
    for name in ("own", "waiting"):
        yield _head(f"zmon:job_host_{name}:gap", host=STANDS_OUT, job_id=JOB), [(LARGE - RECENT_SECONDS, 0.3)]


def _job() -> Iterator[tuple[str, Samples]]:
    """Yield the series of a job of two ranks on node-1, which is scraped like a cluster. One of its GPUs is unknown."""
    scene = Scene(num_ranks=2, hours=0.01, now=NOW + APART_SECONDS, ahead_seconds=0)  # its faults are later
    for series in everything(scene):
        if series.name in (MADE_FOR, "ALERTS"):
            continue
        head = series.head.replace(scene.hosts[0], "node-1").rstrip()
        every = CLUSTER.hub_seconds if series.labels.get("job") == "zmon-hub" else CLUSTER.agents_seconds
        times = np.arange(NOW - (RECENT_SECONDS if series.is_recent else HISTORY_SECONDS), NOW + 1, every)
        values = replace(series, every=every).values(scene, times)
        if series.name == "zmon:gpu_utilization:ratio":
            values = np.full(len(times), float("nan") if series.labels["gpu"] == "1" else 0.5)
        elif np.isnan(values).all():  # a series of another time
            continue
        yield head, zip(times.tolist(), values.tolist(), strict=True)


def _head(name: str, **labels: str) -> str:
    return f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in labels.items())}}}"


@contextlib.contextmanager
def recorded(folder: Path) -> Iterator[str]:
    """Start Prometheus with the samples as its blocks, and yield its URL."""
    text = folder / "samples.om"
    lines = (f"{head} {float(value)} {time}\n" for head, values in samples() for time, value in values)
    text.write_text("".join([*lines, "# EOF\n"]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with prometheus(folder) as (url, _):
        yield url
