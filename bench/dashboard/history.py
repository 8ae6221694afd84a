"""The synthetic history in a folder, generated for one store."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.dashboard import blocks, victoria
from bench.dashboard.scene import Scene
from bench.dashboard.synthetic import everything

PROMETHEUS, VICTORIA = STORES = ("prometheus", "victoriametrics")


@dataclass(frozen=True)
class History:
    """The history in a folder."""

    store: str
    scene: Scene
    num_series: int
    num_samples: int
    seconds: float  # time to generate the history
    num_bytes: int  # on disk


def generate(store: str, scene: Scene, folder: Path, log: Callable[[str], None]) -> History:
    """Generate the history of a scene in this folder, for one of STORES."""
    began_at = time.monotonic()
    series = list(everything(scene))

    def progress(samples: int) -> None:
        log(f"  {samples / 1e6:.1f} M samples of {len(series):,} series, {time.monotonic() - began_at:.0f} s")

    module = victoria if store == VICTORIA else blocks
    samples = module.generate(scene, series, folder, progress)
    seconds = time.monotonic() - began_at
    num_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return History(store, scene, len(series), samples, seconds, num_bytes)
