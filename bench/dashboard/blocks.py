"""Writes the synthetic history as blocks of Prometheus, each from a text file with two hours of samples."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bench.dashboard.scene import Scene
from bench.dashboard.synthetic import Series, everything
from dashboards.panels import ALL
from dashboards.panels.panel import SERIES

BLOCK_SECONDS = 7200  # the default of Prometheus
NEEDED_SECONDS = 3600  # a run of the benchmark needs this much history after now
MANIFEST = "made.json"


@dataclass(frozen=True)
class History:
    """The history in a folder of blocks."""

    num_ranks: int
    hours: float
    now: int
    ahead_seconds: int
    names: str  # names of the series that the charts query, separated by spaces
    series: int
    samples: int
    seconds: float  # time to generate the history

    @property
    def scene(self) -> Scene:
        """The scene of the history."""
        return Scene(self.num_ranks, self.hours, self.now, self.ahead_seconds)


def generate(scene: Scene, folder: Path, log: Callable[[str], None]) -> History:
    """Generate all blocks of a scene with promtool, which must be installed."""
    began_at, series = time.monotonic(), list(everything(scene))
    blocks, text = folder / "blocks", folder / "text.om"
    blocks.mkdir(parents=True, exist_ok=True)
    samples = 0
    for start in range(scene.start // BLOCK_SECONDS * BLOCK_SECONDS, scene.end, BLOCK_SECONDS):
        written = write(text, series, scene, start, start + BLOCK_SECONDS)
        samples += written
        if written:
            command = ("promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks))
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        text.unlink()
        log(f"  {samples / 1e6:.1f} M samples of {len(series):,} series, {time.monotonic() - began_at:.0f} s")
    seconds = time.monotonic() - began_at
    history = History(**asdict(scene), names=_names(), series=len(series), samples=samples, seconds=seconds)
    (folder / MANIFEST).write_text(json.dumps(asdict(history)))
    return history


def load(folder: Path, scene: Scene, now: float) -> History | None:
    """Return the history of an earlier run if its size and names of series are the same and it lasts long enough."""
    try:
        history = History(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    is_same = (history.num_ranks, history.hours, history.names) == (scene.num_ranks, scene.hours, _names())
    return history if is_same and history.scene.end >= now + NEEDED_SECONDS else None


def write(path: Path, all_series: Iterable[Series], scene: Scene, start: int, end: int) -> int:
    """Write the samples from `start` to before `end` as OpenMetrics text; return their number."""
    samples = 0
    with path.open("w") as text:
        for series in all_series:
            times = series.times(scene, start, end)
            if not len(times):
                continue
            ends = _ends(int(times[0]), int(times[-1]), series.every)
            if (value := series.constant()) is not None:
                head = f"{series.head}{value:g}"
                text.write(head + head.join(ends))
                samples += len(ends)
                continue
            values, head = np.round(series.values(scene, times), 6), series.head
            lines = [f"{head}{v}{t}" for v, t in zip(values.tolist(), ends, strict=True) if v == v]
            text.writelines(lines)
            samples += len(lines)
        text.write("# EOF\n")
    return samples


def _names() -> str:
    return " ".join(sorted({name for panel in ALL for name in SERIES.findall(f"{panel.promql} {panel.many}")}))


@lru_cache(64)
def _ends(first: int, last: int, every: int) -> list[str]:
    """Return the ends of lines, with their times. They are cached, because many series have the same."""
    return [f" {time}\n" for time in range(first, last + 1, every)]
