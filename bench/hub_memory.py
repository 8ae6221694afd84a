"""The memory of a hub over hours, with a limit: how much it grows after its first ten minutes.

    python -m bench.hub_memory [--ranks N] [--minutes N] [--limit MiB]

The cluster is that of bench.hub. Every five minutes another rank stops for 30 seconds, and a client reads /metrics, the
list of jobs and the findings every two seconds, as Prometheus and a dashboard do. The hub and its children have a
control group of their own, whose memory is limited, so this needs root and the memory controller of control groups
version 1 (see Documentation/admin-guide/cgroup-v1/memory.rst of the kernel). The kernel would end a hub that exceeds
the limit.
"""

from __future__ import annotations

import argparse
import os
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from bench.attack import list_of
from bench.hub import RunningHub, post, running_hub
from bench.rows import MIB_PER_BYTE, PERCENT, table_line
from lab.faults.sabotage import wait_until

_GROUP = Path("/sys/fs/cgroup/memory") / f"zmon-bench-{os.getpid()}"
_ROW_SECONDS = 600.0  # the windows over steps are full after this time
_STRIKE_SECONDS = 30.0  # for which a rank is stopped
_STRIKE_EVERY_SECONDS = 300.0
_READ_SECONDS = 2.0
_START_SECONDS = 60.0
_PATHS = ("/metrics", "/api/v1/jobs", "/api/v1/findings")
_HEADS = ("minutes", "resident", "÷ first row", "peak of the group", "ranks stopped", "of a core")


def main() -> None:
    """Measure, and print a row every ten minutes and one at the end."""
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
    """Run the hub for this time, with ranks that stop now and then, and print its memory."""
    with running_hub(num_ranks) as running:
        (_GROUP / "cgroup.procs").write_text(str(running.process.pid))
        wait_until(lambda: list_of(f"{running.url}/api/v1/jobs"), _START_SECONDS)
        print(table_line(_HEADS, _HEADS), flush=True)
        begin = time.monotonic()
        first = 0
        due = deque(_strikes(num_ranks, seconds))
        sent = 0
        for row_end in _row_ends(seconds):
            while (elapsed := time.monotonic() - begin) < row_end:
                while due and due[0][0] <= elapsed:
                    post(f"{running.cluster}/{due.popleft()[1]}")
                    sent += 1
                _read(running.url)
                time.sleep(_READ_SECONDS)
            resident = int(running.process.memory_info().rss)
            first = first or resident
            print(table_line(_cells(running, elapsed, resident / first, (sent + 1) // 2), _HEADS), flush=True)
        print(f"(load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end)")


def _row_ends(seconds: float) -> list[float]:
    """Return the ends of the rows: every ten minutes, and the end of the run."""
    return [*(_ROW_SECONDS * number for number in range(1, int(seconds / _ROW_SECONDS - 0.01) + 1)), seconds]


def _strikes(num_ranks: int, seconds: float) -> Iterator[tuple[float, str]]:
    """Yield when a rank stops and when it goes on, in seconds from the begin, with the path of the request."""
    for number in range(int(seconds / _STRIKE_EVERY_SECONDS + 0.5)):
        stop = (number + 0.5) * _STRIKE_EVERY_SECONDS
        yield stop, f"strike/{number * 37 % num_ranks}"
        yield stop + _STRIKE_SECONDS, "continue"


def _read(url: str) -> None:
    for path in _PATHS:
        with urllib.request.urlopen(url + path, timeout=30) as answer:
            answer.read()


def _cells(running: RunningHub, elapsed: float, ratio: float, num_strikes: int) -> tuple[str, ...]:
    peak = int((_GROUP / "memory.max_usage_in_bytes").read_text())
    return (
        f"{elapsed / 60:.0f}",
        f"{running.process.memory_info().rss * MIB_PER_BYTE:.1f} MiB",
        f"{ratio:.3f}",
        f"{peak * MIB_PER_BYTE:.0f} MiB",
        str(num_strikes),
        f"{sum(running.process.cpu_times()[:2]) / elapsed * PERCENT:.0f} %",
    )


if __name__ == "__main__":
    main()
