"""Writes the synthetic history as blocks of Prometheus, each from a text file with two hours of samples."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from math import isnan
from pathlib import Path

import numpy as np

from bench.dashboard.scene import Scene
from bench.dashboard.synthetic import Series

BLOCK_SECONDS = 7200  # the default of Prometheus
END = "# EOF\n"


def generate(scene: Scene, series: list[Series], folder: Path, log: Callable[[int], None]) -> int:
    """Generate all blocks of a scene with promtool, which must be installed. Return the number of samples.

    While promtool reads the text of a block, the text of the next one is written.
    """
    blocks = folder / "blocks"
    num_samples = 0
    blocks.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as promtool:
        previous: Future[None] | None = None
        for start in range(scene.start // BLOCK_SECONDS * BLOCK_SECONDS, scene.end, BLOCK_SECONDS):
            text = folder / f"text-{start}.om"
            num_samples += write(text, series, scene, start, start + BLOCK_SECONDS)
            if previous:
                previous.result()
            previous = promtool.submit(convert, text, blocks)
            log(num_samples)
        if previous:
            previous.result()
    return num_samples


def convert(text: Path, blocks: Path) -> None:
    """Make blocks of a text file with samples, and delete it."""
    if text.stat().st_size > len(END):
        command = ("promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    text.unlink()


def write(path: Path, all_series: Iterable[Series], scene: Scene, start: int, end: int) -> int:
    """Write the samples from `start` to before `end` as OpenMetrics text; return their number."""
    num_samples = 0
    with path.open("w") as text:
        for series in all_series:
            times = series.times(scene, start, end)
            if not len(times):
                continue
            ends = _ends(int(times[0]), int(times[-1]), series.every)
            only_value = series.only_value()
            if only_value is not None:
                head = f"{series.head}{only_value:g}"
                text.write(head + head.join(ends))
                num_samples += len(ends)
                continue
            values = np.round(series.values(scene, times), 6)
            head = series.head
            lines = [
                f"{head}{value}{line_end}"
                for value, line_end in zip(values.tolist(), ends, strict=True)
                if not isnan(value)
            ]
            text.writelines(lines)
            num_samples += len(lines)
        text.write(END)
    return num_samples


@lru_cache(64)
def _ends(first: int, last: int, every: int) -> list[str]:
    """Return the ends of lines, with their times. They are cached, because many series have the same times."""
    return [f" {time}\n" for time in range(first, last + 1, every)]
