"""The disk space of a job's samples in Prometheus and in VictoriaMetrics: series per rank, and bytes per sample.

    python -m bench.stores [--ranks 1024] [--minutes 60]

Samples are those of the benchmark of the dashboard, at the scrape intervals of a cluster: agents every 15 s, the hub
every 2 s. promtool writes them as a block of Prometheus, and VictoriaMetrics imports the same text.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.dashboard import victoria
from bench.dashboard.blocks import BLOCK_SECONDS, convert, write
from bench.dashboard.scene import EARLIER_SECONDS, Scene
from bench.dashboard.synthetic import Series, everything
from dashboards.intervals import CLUSTER
from dashboards.rules.render import recording_seconds

_DATA_SIZE = re.compile(r"^vm_data_size_bytes\{.*\} (\S+)", re.M)  # samples and index


@dataclass(frozen=True)
class Part:
    """A part of the series that a store may keep."""

    name: str
    has: Callable[[Series], bool]
    days: int  # how long docs/deploy/long-term.md keeps it


PARTS = (
    Part("everything", lambda series: True, 2),
    Part("scraped, of ranks", lambda series: "rank" in series.labels and not _is_recorded(series), 2),
    Part("recorded, and jobs from the hub", lambda series: series.name.startswith(("zmon:", "zmon_job_")), 30),
    Part("recorded, of ranks", lambda series: "rank" in series.labels and _is_recorded(series), 30),
)


def main() -> None:
    """Print a row for each part of the series."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the job (1024)")
    parser.add_argument("--minutes", type=int, default=60, help="minutes of samples (60)")
    options = parser.parse_args()
    seconds = options.minutes * 60
    start = (int(time.time()) // BLOCK_SECONDS - 1) * BLOCK_SECONDS  # where a block starts: it has all samples
    hours = (seconds - EARLIER_SECONDS) / 3600
    scene = Scene(options.ranks, hours, now=start + seconds, ahead_seconds=0)
    all_series = [_as_scraped(series) for series in everything(scene)]
    print(
        f"{options.ranks} ranks, {options.minutes} minutes; agents every {CLUSTER.agents_seconds} s, "
        f"hub every {CLUSTER.hub_seconds} s"
    )
    print(
        "| series | number | per rank | samples | Prometheus, bytes per sample | VictoriaMetrics, bytes per sample | "
        "kept | Prometheus | VictoriaMetrics |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for part in PARTS:
        series = [candidate for candidate in all_series if part.has(candidate)]
        with tempfile.TemporaryDirectory(prefix="zmon-stores-") as folder:
            samples, prometheus_bytes, victoria_bytes = _sizes(Path(folder), series, scene)
        scale = part.days * 86400 / seconds
        print(
            f"| {part.name} | {len(series):,} | {len(series) / options.ranks:.1f} | {samples / 1e6:.1f} M "
            f"| {prometheus_bytes / samples:.2f} | {victoria_bytes / samples:.2f} | {part.days} days "
            f"| {prometheus_bytes * scale / 1e9:.1f} GB | {victoria_bytes * scale / 1e9:.1f} GB |",
            flush=True,
        )


def _as_scraped(series: Series) -> Series:
    """Return the series with a sample at each scrape or evaluation of a cluster."""
    seconds = recording_seconds(CLUSTER).get(series.name)
    if seconds is None:
        seconds = CLUSTER.hub_seconds if series.labels.get("job") == "zmon-hub" else CLUSTER.agents_seconds
    return replace(series, every=seconds, is_recent=False)


def _is_recorded(series: Series) -> bool:
    return series.name.startswith("zmon:")


def _sizes(folder: Path, series: Sequence[Series], scene: Scene) -> tuple[int, int, int]:
    """Return the number of samples, and their bytes on disk in Prometheus and in VictoriaMetrics."""
    text = folder / "text.om"
    blocks = folder / "blocks"
    samples = write(text, series, scene, scene.start, scene.end)
    with victoria.running(folder) as (url, _):
        imported = urllib.request.Request(f"{url}/api/v1/import/prometheus", data=_in_milliseconds(text), method="POST")
        urllib.request.urlopen(imported, timeout=900).close()
        urllib.request.urlopen(f"{url}/internal/force_flush", timeout=600).close()
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as page:
            victoria_bytes = sum(map(float, _DATA_SIZE.findall(page.read().decode())))
    convert(text, blocks)
    prometheus_bytes = sum(file.stat().st_size for file in blocks.rglob("*") if file.is_file())
    return samples, prometheus_bytes, round(victoria_bytes)


def _in_milliseconds(text: Path) -> Iterator[bytes]:
    """Yield the file with times in milliseconds, as VictoriaMetrics reads them."""
    with text.open("rb") as file:
        while block := file.read(1 << 20):
            yield block.replace(b"\n", b"000\n")


if __name__ == "__main__":
    main()
