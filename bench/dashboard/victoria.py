"""Imports the synthetic history into VictoriaMetrics, which must be installed."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import psutil

from bench.dashboard.scene import Scene
from bench.dashboard.synthetic import Series
from bench.processes import child, wait_for_answer
from lab.jobs.without_torchrun import free_port

PROGRAM = "victoria-metrics"
_LINES = 2000  # series in one request


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Start VictoriaMetrics on the data in this folder; it scrapes nothing."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = (
        PROGRAM, f"-storageDataPath={folder / 'victoria'}", f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=1y", "-loggerLevel=ERROR", "-search.latencyOffset=0s", "-search.disableCache",
        "-search.maxStalenessInterval=5m",
    )  # fmt: skip
    with child(*command) as process:
        wait_for_answer(f"{url}/health", process)
        yield url, process


def generate(scene: Scene, series: list[Series], folder: Path, log: Callable[[int], None]) -> int:
    """Import all series of a scene. Return the number of samples."""
    total = 0
    with running(folder) as (url, _):
        for first in range(0, len(series), _LINES):
            lines, samples = write(series[first : first + _LINES], scene)
            if lines:
                _post(f"{url}/api/v1/import", lines)
            total += samples
            if first % (10 * _LINES) == 0:
                log(total)
        _post(f"{url}/internal/force_flush", b"")
    return total


def write(series: Iterable[Series], scene: Scene) -> tuple[bytes, int]:
    """Return a line of JSON for each series with samples, as /api/v1/import reads it, and the number of samples."""
    lines = []
    samples = 0
    for entry in series:
        times = entry.times(scene, scene.start, scene.end)
        values = np.round(entry.values(scene, times), 6)
        known = ~np.isnan(values)
        if known.any():
            line = {"metric": {"__name__": entry.name, **entry.labels}, "values": values[known].tolist()}
            lines.append(msgspec.json.encode({**line, "timestamps": (1000 * times[known]).tolist()}))
            samples += int(known.sum())
    return b"\n".join(lines), samples


def _post(url: str, content: bytes) -> None:
    request = urllib.request.Request(url, data=content, method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        answer.read()
