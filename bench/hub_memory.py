"""The memory of a hub over hours, with a limit: how much it grows after its first ten minutes.

    python -m bench.hub_memory [--ranks N] [--minutes N] [--limit MiB]

The cluster is that of bench.hub. Every five minutes another rank stops for 30 seconds, and a client reads /metrics, the
job and its findings every two seconds, as Prometheus and a dashboard do. The hub and its children have a control group
of their own, whose memory is limited, so this needs root and the memory controller of control groups version 1 (see
Documentation/admin-guide/cgroup-v1/memory.rst of the kernel). The kernel would end a hub that exceeds the limit.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.agent import daemon, free_port
from bench.cluster import RANKS_PER_AGENT
from bench.hub import cluster_url
from bench.rows import MEBI, PERCENT, table_line

_GROUP = Path("/sys/fs/cgroup/memory") / f"zmon-bench-{os.getpid()}"
_SETTLE_SECONDS = 600.0  # the windows over steps are full after this time
_ROW_SECONDS = 600.0
_STRIKE_SECONDS, _STRIKE_EVERY_SECONDS = 30.0, 300.0
_READ_SECONDS = 2.0
_START_SECONDS = 60.0
_PATHS = ("/metrics", "/api/v1/jobs", "/api/v1/findings")
_HEADS = ("minutes", "resident", "÷ after ten", "peak of the group", "ranks stopped", "of a core")


def main() -> None:
    """Measure and print a row every ten minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024, help="ranks of the cluster (1,024)")
    parser.add_argument("--minutes", type=float, default=120.0, help="how long the hub runs (120)")
    parser.add_argument("--limit", type=int, default=512, help="memory limit of the hub in MiB (512)")
    arguments = parser.parse_args()
    _GROUP.mkdir()
    try:
        (_GROUP / "memory.limit_in_bytes").write_text(str(arguments.limit << 20))
        measure(arguments.ranks, arguments.minutes * 60)
    finally:
        _GROUP.rmdir()


def measure(num_ranks: int, seconds: float) -> None:
    """Run the hub for so long, with ranks that stop now and then, and print its memory."""
    with tempfile.TemporaryDirectory(prefix="zmon-bench-") as data, cluster_url(num_ranks) as cluster:
        agents = ",".join(f"{cluster}/agent/{agent}" for agent in range(num_ranks // RANKS_PER_AGENT))
        port = free_port()
        with daemon("hub", "--agents", agents, "--data-dir", data, "--port", str(port)) as hub:
            (_GROUP / "cgroup.procs").write_text(str(hub.pid))
            url = f"http://127.0.0.1:{port}"
            _await_start(url)
            print(table_line(_HEADS, _HEADS), flush=True)
            begin = time.monotonic()
            settled: int | None = None
            next_row = _SETTLE_SECONDS if seconds > _SETTLE_SECONDS else seconds
            next_strike, strikes, stopped_at = _STRIKE_EVERY_SECONDS / 2, 0, 0.0
            while (elapsed := time.monotonic() - begin) < seconds:
                if stopped_at and elapsed - stopped_at > _STRIKE_SECONDS:
                    _post(f"{cluster}/continue")
                    stopped_at = 0.0
                if elapsed > next_strike:
                    _post(f"{cluster}/strike/{strikes * 37 % num_ranks}")
                    strikes, stopped_at, next_strike = strikes + 1, elapsed, elapsed + _STRIKE_EVERY_SECONDS
                for path in _PATHS:
                    with urllib.request.urlopen(url + path, timeout=30) as answer:
                        answer.read()
                if elapsed > next_row:
                    resident = hub.memory_info().rss
                    settled = settled or resident
                    next_row += _ROW_SECONDS
                    cells = (
                        f"{elapsed / 60:.0f}", f"{resident * MEBI:.1f} MiB", f"{resident / settled:.3f}",
                        f"{int((_GROUP / 'memory.max_usage_in_bytes').read_text()) * MEBI:.0f} MiB", str(strikes),
                        f"{sum(hub.cpu_times()[:2]) / elapsed * PERCENT:.0f} %",
                    )  # fmt: skip
                    print(table_line(cells, _HEADS), flush=True)
                time.sleep(_READ_SECONDS)
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end")


def _await_start(url: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            return urllib.request.urlopen(f"{url}/healthz", timeout=10).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _post(url: str) -> None:
    urllib.request.urlopen(url, data=b"", timeout=10).close()


if __name__ == "__main__":
    main()
