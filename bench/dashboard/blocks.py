"""Brings the job that is played into blocks of Prometheus: text for two hours, a block of it, then the next two."""

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

BLOCK_SECONDS = 7200  # as long as Prometheus' own
NEEDED_SECONDS = 3600  # that data must still reach ahead of now for a whole run of the benchmark
MANIFEST = "made.json"


@dataclass(frozen=True)
class Made:
    """What lies in a folder of blocks."""

    num_ranks: int
    hours: float
    now: int
    ahead_seconds: int
    names: str  # of the series that charts asked for then
    series: int
    samples: int
    seconds: float  # it took

    @property
    def scene(self) -> Scene:
        """What was played."""
        return Scene(self.num_ranks, self.hours, self.now, self.ahead_seconds)


def make(scene: Scene, folder: Path, say: Callable[[str], None]) -> Made:
    """All blocks of a scene; promtool does it, and it must be there."""
    began, series = time.monotonic(), list(everything(scene))
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
        say(f"  {samples / 1e6:.1f} M samples of {len(series):,} series, {time.monotonic() - began:.0f} s")
    made = Made(**asdict(scene), names=_names(), series=len(series), samples=samples, seconds=time.monotonic() - began)
    (folder / MANIFEST).write_text(json.dumps(asdict(made)))
    return made


def kept(folder: Path, scene: Scene, now: float) -> Made | None:
    """What an earlier run left there, if it is of the same size, for the same charts, and reaches far enough ahead."""
    try:
        made = Made(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    is_same = (made.num_ranks, made.hours, made.names) == (scene.num_ranks, scene.hours, _names())
    return made if is_same and made.scene.end >= now + NEEDED_SECONDS else None


def write(path: Path, series: Iterable[Series], scene: Scene, start: int, end: int) -> int:
    """The samples from `start` to before `end` as OpenMetrics text. Returns how many they are."""
    samples = 0
    with path.open("w") as text:
        for one in series:
            times = one.times(scene, start, end)
            if not len(times):
                continue
            ends = _ends(int(times[0]), int(times[-1]), one.every)
            if (value := one.constant()) is not None:
                head = f"{one.head}{value:g}"
                text.write(head + head.join(ends))
                samples += len(ends)
                continue
            values, head = np.round(one.values(scene, times), 6), one.head
            told = [f"{head}{v}{t}" for v, t in zip(values.tolist(), ends, strict=True) if v == v]
            text.writelines(told)
            samples += len(told)
        text.write("# EOF\n")
    return samples


def _names() -> str:
    return " ".join(sorted({name for panel in ALL for name in SERIES.findall(f"{panel.promql} {panel.many}")}))


@lru_cache(64)
def _ends(first: int, last: int, every: int) -> list[str]:
    """How lines end: many series have the same times."""
    return [f" {time}\n" for time in range(first, last + 1, every)]
