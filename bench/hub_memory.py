"""The memory of a hub over hours, with a limit: how much it grows after its first ten minutes.

    python -m bench.hub_memory [--ranks N] [--minutes N] [--limit MiB]

The cluster is that of bench.hub. Every five minutes another rank stops for 30 seconds, and a client reads /metrics, the
list of jobs and the findings every two seconds, as Prometheus and a dashboard do. The hub and its children have a
control group of their own, whose memory is limited, so this needs root and the memory controller of control groups
version 1 (see Documentation/admin-guide/cgroup-v1/memory.rst of the kernel). The kernel would end a hub that exceeds
the limit.
"""

from __future__ import annotations

import math
import os
import time
import urllib.request
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.attack import list_of
from bench.hub import post, running_hub
from bench.processes import cpu_seconds
from bench.rows import MIB_PER_BYTE, PERCENT, load_line, parser_of, table_line
from lab.faults.sabotage import wait_until

_GROUP = Path("/sys/fs/cgroup/memory") / f"zmon-bench-{os.getpid()}"
_ROW_SECONDS = 600.0  # between two rows; the windows over steps are full before the first one
_STOP_SECONDS = 30.0  # how long a rank is stopped
_STOP_EVERY_SECONDS = 300.0
_READ_SECONDS = 2.0  # between two requests of the client
_RANK_STRIDE = 37  # from one stopped rank to the next, so that they are on different hosts
_START_SECONDS = 60.0
_CONTINUE = "continue"  # the path of the request that lets the stopped rank go on
_PATHS = ("/metrics", "/api/v1/jobs", "/api/v1/findings")
_HEADS = ("minutes", "resident", "÷ first row", "peak of the group", "ranks stopped", "of a core")


class Request(NamedTuple):
    """A request to the simulated cluster."""

    seconds: float  # after the start of the measurement
    path: str


def main() -> None:
    """Measure, and print a row every ten minutes and one at the end."""
    parser = parser_of(__doc__)
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
        first_bytes = None
        requests = deque(_requests(num_ranks, seconds))
        num_stops = 0
        for row_end in _row_ends(seconds):
            while (elapsed := time.monotonic() - begin) < row_end:
                while requests and requests[0].seconds <= elapsed:
                    request = requests.popleft()
                    post(f"{running.cluster_url}/{request.path}")
                    num_stops += request.path != _CONTINUE
                _read(running.url)
                time.sleep(_READ_SECONDS)
            resident_bytes = int(running.process.memory_info().rss)
            first_bytes = first_bytes or resident_bytes
            peak_bytes = int((_GROUP / "memory.max_usage_in_bytes").read_text())
            cells = (
                f"{elapsed / 60:.0f}", f"{resident_bytes * MIB_PER_BYTE:.1f} MiB",
                f"{resident_bytes / first_bytes:.3f}", f"{peak_bytes * MIB_PER_BYTE:.0f} MiB", str(num_stops),
                f"{cpu_seconds(running.process) / elapsed * PERCENT:.0f} %",
            )  # fmt: skip
            print(table_line(cells, _HEADS), flush=True)
        print(load_line())


def _row_ends(seconds: float) -> list[float]:
    """Return the ends of the rows: every ten minutes, and the end of the run."""
    num_rows = math.ceil(seconds / _ROW_SECONDS)
    return [*(_ROW_SECONDS * number for number in range(1, num_rows)), seconds]


def _requests(num_ranks: int, seconds: float) -> Iterator[Request]:
    """Yield the requests that stop a rank and let it go on, in the middle of each _STOP_EVERY_SECONDS."""
    for number in range(round(seconds / _STOP_EVERY_SECONDS)):
        stop = (number + 0.5) * _STOP_EVERY_SECONDS
        yield Request(stop, f"strike/{number * _RANK_STRIDE % num_ranks}")
        yield Request(stop + _STOP_SECONDS, _CONTINUE)


def _read(url: str) -> None:
    for path in _PATHS:
        with urllib.request.urlopen(url + path, timeout=30) as answer:
            answer.read()


if __name__ == "__main__":
    main()
