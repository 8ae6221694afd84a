"""The cost of an agent: CPU, memory and time to answer, with live ranks that step every 20 ms.

The benchmark scrapes the agent every two seconds, as Prometheus would. In the second half a hub also polls it. The
boxes are real. The ranks run without torch.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.processes import cpu_seconds, daemon, ranks_running
from bench.rows import MIB_PER_BYTE, PERCENT, Row
from lab.jobs.without_torchrun import free_port

RANKS = 8
SCRAPE_SECONDS = 2.0
_SETTLE_SECONDS = 5.0


@dataclass(frozen=True)
class Cost:
    """The cost of an agent over some time."""

    cpu_ratio: float  # share of one core
    resident_bytes: int
    scrape_seconds: tuple[float, ...]
    num_series: int
    num_rank_series: int  # series of one rank


def measure(seconds: float, ranks: int = RANKS) -> list[Row]:
    """Measure the agent without and with a hub, for `seconds` each."""
    rows = []
    for clients, cost in zip(("scraped", "scraped and polled by a hub"), costs(seconds, ranks), strict=True):
        rows += [
            Row(f"agent, {clients}: of a core", cost.cpu_ratio * PERCENT, "%"),
            Row(f"agent, {clients}: resident", cost.resident_bytes * MIB_PER_BYTE, "MiB"),
            Row(f"agent, {clients}: a scrape, median", statistics.median(cost.scrape_seconds) * 1000, "ms"),
        ]
    return rows


def costs(seconds: float, ranks: int) -> tuple[Cost, Cost]:
    """Return the cost of an agent that is only scraped, and of one that a hub polls as well."""
    with (
        tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder,
        ranks_running(Path(folder), ranks),
    ):
        port = free_port()
        data = f"{folder}/data"
        with daemon("agent", "--box-dir", f"{folder}/boxes", "--data-dir", data, "--port", str(port)) as agent:
            scraped = _watch(agent, port, seconds)
            hub = ("hub", "--agents", f"http://127.0.0.1:{port}", "--data-dir", data, "--port", str(free_port()))
            with daemon(*hub):
                return scraped, _watch(agent, port, seconds)


def _watch(process: psutil.Process, port: int, seconds: float) -> Cost:
    time.sleep(_SETTLE_SECONDS)
    scrapes = []
    page = ""
    cpu_before = cpu_seconds(process)
    begin = time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        scrape_begin = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        scrapes.append(time.perf_counter() - scrape_begin)
        time.sleep(min(SCRAPE_SECONDS, max(seconds - elapsed, 0.0)))
    cpu_ratio = (cpu_seconds(process) - cpu_before) / (time.monotonic() - begin)
    series = [line for line in page.splitlines() if line[0] != "#"]
    return Cost(
        cpu_ratio=cpu_ratio,
        resident_bytes=process.memory_info().rss,
        scrape_seconds=tuple(scrapes),
        num_series=len(series),
        num_rank_series=sum('job_id="bench",' in line and 'rank="0"' in line for line in series),
    )
