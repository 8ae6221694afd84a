"""The duration of a hub's pass, and the time until it reports a stopped rank. Takes two minutes.

    python -m bench.hub [--ranks N …] [--seconds N]

One process simulates the agents over real HTTP, with answers of real size (eight ranks each). On a small machine it
uses as much CPU as the hub; `of a core` counts only the hub.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from bench.agent import daemon, free_port
from bench.cluster import RANKS_PER_AGENT, serve
from bench.rows import MEBI, PERCENT, table_line

_HEADS = ("ranks", "agents", "pass, median", "slowest", "÷ first", "of a core", "resident", "stop → finding")
_SETTLE_SECONDS = 5.0
_MAX_FINDING_SECONDS = 30.0


@dataclass(frozen=True)
class Cost:
    """The cost of a hub over some time."""

    passes: tuple[float, ...]  # seconds
    core: float  # share of one core
    resident_bytes: int
    finding_seconds: float | None  # None: no finding within 30 s


@dataclass(frozen=True)
class RunningHub:
    """A hub, and the URLs of it and of its simulated cluster."""

    process: psutil.Process
    url: str
    cluster: str


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of each measurement (15)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 256, 1024, 4096], help="ranks of the cluster")
    arguments = parser.parse_args()
    print("ranks step every 250 ms, the hub polls every second")
    print(table_line(_HEADS, _HEADS), flush=True)
    first = None
    for num_ranks in arguments.ranks:
        cost = measure(num_ranks, arguments.seconds)
        median = statistics.median(cost.passes)
        first = first or median
        finding = "none" if cost.finding_seconds is None else f"{cost.finding_seconds:.2f} s"
        cells = (
            str(num_ranks), str(num_ranks // RANKS_PER_AGENT), f"{median * 1000:.0f} ms",
            f"{max(cost.passes) * 1000:.0f} ms", f"{median / first:.1f} ×", f"{cost.core * PERCENT:.0f} %",
            f"{cost.resident_bytes * MEBI:.0f} MiB", finding,
        )  # fmt: skip
        print(table_line(cells, _HEADS), flush=True)
    print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")


def measure(num_ranks: int, seconds: float) -> Cost:
    """Measure a hub with its cluster: first a healthy job, then the time until the finding for a stopped rank."""
    with running_hub(num_ranks) as running:
        time.sleep(_SETTLE_SECONDS)
        passes, core = _watch(running.process, running.url, seconds)
        resident = running.process.memory_info().rss
        stopped_at = time.monotonic()
        post(f"{running.cluster}/strike/{num_ranks // 2}")
        finding_seconds = None
        while finding_seconds is None and time.monotonic() - stopped_at < _MAX_FINDING_SECONDS:
            findings = _get(f"{running.url}/api/v1/findings?active=1")["findings"]
            if any(finding["ranks"] == [num_ranks // 2] for finding in findings):
                finding_seconds = time.monotonic() - stopped_at
            time.sleep(0.05)
        return Cost(passes, core, resident, finding_seconds)


@contextlib.contextmanager
def running_hub(num_ranks: int) -> Iterator[RunningHub]:
    """Run a hub with a simulated cluster of so many ranks; yield both."""
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as data, cluster_url(num_ranks) as cluster:
        agents = ",".join(f"{cluster}/agent/{agent}" for agent in range(num_ranks // RANKS_PER_AGENT))
        port = free_port()
        with daemon("hub", "--agents", agents, "--data-dir", data, "--port", str(port)) as hub:
            yield RunningHub(hub, f"http://127.0.0.1:{port}", cluster)


def post(url: str) -> None:
    """Send an empty POST."""
    urllib.request.urlopen(url, data=b"", timeout=10).close()


def _watch(hub: psutil.Process, url: str, seconds: float) -> tuple[tuple[float, ...], float]:
    passes: list[float] = []
    cpu_before, begin = sum(hub.cpu_times()[:2]), time.monotonic()
    while time.monotonic() - begin < seconds:
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        passes += [float(line.split()[-1]) for line in lines if line.startswith("zmon_hub_pass_seconds ")]
        time.sleep(0.7)
    return tuple(passes), (sum(hub.cpu_times()[:2]) - cpu_before) / (time.monotonic() - begin)


def _get(url: str) -> dict[str, list[dict[str, object]]]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: dict[str, list[dict[str, object]]] = json.load(answer)
        return content


@contextlib.contextmanager
def cluster_url(num_ranks: int) -> Iterator[str]:
    """Run a simulated cluster; yield its URL."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(num_ranks, port), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()
