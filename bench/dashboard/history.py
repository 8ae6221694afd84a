"""The synthetic history in a folder. It is generated for one store, and used again while it is recent enough."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.dashboard import blocks, victoria
from bench.dashboard.scene import Scene
from bench.dashboard.synthetic import everything
from dashboards.panels import ALL
from dashboards.panels.panel import SERIES

PROMETHEUS, VICTORIA = STORES = ("prometheus", "victoriametrics")
NEEDED_SECONDS = 3600  # a run of the benchmark needs this much history after now
MANIFEST = "history.json"


@dataclass(frozen=True)
class History:
    """The history in a folder."""

    store: str
    num_ranks: int
    hours: float
    now: int
    ahead_seconds: int
    names: list[str]  # of the series that the charts query
    num_series: int
    num_samples: int
    seconds: float  # time to generate the history
    num_bytes: int  # on disk

    @property
    def scene(self) -> Scene:
        """The scene of the history."""
        return Scene(self.num_ranks, self.hours, self.now, self.ahead_seconds)


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
    history = History(store, **asdict(scene), names=names(), num_series=len(series), num_samples=samples,
                      seconds=seconds, num_bytes=num_bytes)  # fmt: skip
    (folder / MANIFEST).write_text(json.dumps(asdict(history)))
    return history


def load(store: str, folder: Path, scene: Scene, now: float) -> History | None:
    """Return the history of an earlier run if it has this size, these series, and enough time after now; else None."""
    try:
        history = History(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    is_same = (history.store, history.num_ranks, history.hours) == (store, scene.num_ranks, scene.hours)
    has_names = set(names()) <= set(history.names)
    return history if is_same and has_names and history.scene.end >= now + NEEDED_SECONDS else None


def names() -> list[str]:
    """Return the names of the series that the charts query."""
    texts = (
        text
        for panel in ALL
        for text in (panel.promql, panel.summary_promql, panel.outlier_promql, panel.all_hosts_promql)
    )
    return sorted({name for text in texts for name in SERIES.findall(text)})
