"""The cost of a hub's passes, and the time until it reports a stopped rank. Takes six minutes without `--quiet`.

    python -m bench.hub [--ranks N …] [--seconds N] [--quiet MINUTES]

One process simulates the agents over real HTTP, with answers of real size (eight ranks each). On a small machine it
uses as much CPU as the hub: `players` is its share of one core. `pass, CPU` counts only the hub. `false` counts the
findings in quiet minutes, in which nothing happens.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from bench.cluster import RANKS_PER_AGENT, serve
from bench.processes import cpu_seconds, daemon, spawn
from bench.rows import MIB_PER_BYTE, PERCENT, load_line, parser_of, table_line
from lab.faults.sabotage import wait_until
from lab.jobs.without_torchrun import free_port

_HEADS = (
    "ranks", "agents", "pass, CPU", "pass, wall", "slowest", "CPU a rank", "of a core", "players", "received",
    "resident", "stop → finding", "false",
)  # fmt: skip
_SETTLE_SECONDS = 25.0  # the windows over steps are full after this time
_MAX_START_SECONDS = 120.0
_MAX_FINDING_SECONDS = 30.0
_LOOK_SECONDS = 0.5  # between two requests
_FINDING_LOOK_SECONDS = 0.05  # between two requests while the delay of a finding is measured
_QUIET_LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Passes:
    """The passes of a hub over some time, and what they cost."""

    pass_seconds: tuple[float, ...]  # of each pass, by the wall clock
    cpu_seconds: float  # of the hub, for one pass
    cpu_ratio: float  # share of one core that the hub used
    players_cpu_ratio: float
    bytes_per_second: float  # of the agents' reports


@dataclass(frozen=True)
class RunningHub:
    """A hub and its simulated cluster."""

    process: psutil.Process
    url: str
    cluster_url: str
    players: psutil.Process  # simulates all agents


def main() -> None:
    """Measure and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each measurement (20)")
    parser.add_argument("--quiet", type=float, default=0.0, help="quiet minutes of each cluster (0)")
    parser.add_argument(
        "--ranks", type=int, nargs="+", default=[64, 256, 1024, 4096, 16384], help="ranks of the cluster"
    )
    arguments = parser.parse_args()
    print("ranks step every 250 ms, the hub waits a second between two passes")
    print(table_line(_HEADS, _HEADS), flush=True)
    for num_ranks in arguments.ranks:
        print(table_line(measure(num_ranks, arguments.seconds, arguments.quiet), _HEADS), flush=True)
    print(load_line())


def measure(num_ranks: int, seconds: float, quiet_minutes: float) -> tuple[str, ...]:
    """Measure a hub with its cluster: first a healthy job, then the time until the finding for a stopped rank.

    Return the cells of its line.
    """
    with running_hub(num_ranks) as running:
        _wait_for_job(running, num_ranks)
        time.sleep(_SETTLE_SECONDS)
        passes = _watch(running, seconds)
        num_false = _quiet_findings(running, quiet_minutes * 60) if quiet_minutes else None
        resident = running.process.memory_info().rss
        finding_seconds = _seconds_to_finding(running, num_ranks // 2)
    return (
        str(num_ranks), str(num_ranks // RANKS_PER_AGENT), f"{passes.cpu_seconds * 1000:.0f} ms",
        f"{statistics.median(passes.pass_seconds) * 1000:.0f} ms", f"{max(passes.pass_seconds) * 1000:.0f} ms",
        f"{passes.cpu_seconds / num_ranks * 1e6:.0f} us", f"{passes.cpu_ratio * PERCENT:.0f} %",
        f"{passes.players_cpu_ratio * PERCENT:.0f} %", f"{passes.bytes_per_second / 1e6:.2f} MB/s",
        f"{resident * MIB_PER_BYTE:.0f} MiB", "none" if finding_seconds is None else f"{finding_seconds:.2f} s",
        "-" if num_false is None else str(num_false),
    )  # fmt: skip


@contextlib.contextmanager
def running_hub(num_ranks: int) -> Iterator[RunningHub]:
    """Run a hub with a simulated cluster of this many ranks; yield both."""
    port, players_port = free_port(), free_port()
    url = f"http://127.0.0.1:{players_port}"
    agents = ",".join(f"{url}/agent/{agent}" for agent in range(num_ranks // RANKS_PER_AGENT))
    with (
        tempfile.TemporaryDirectory(prefix="zmon-bench-") as data,
        spawn(serve, num_ranks, players_port) as players,
        daemon("hub", "--agents", agents, "--data-dir", data, "--port", str(port)) as hub,
    ):
        yield RunningHub(hub, f"http://127.0.0.1:{port}", url, players)


def _wait_for_job(running: RunningHub, num_ranks: int) -> None:
    """Wait until the hub has seen all ranks."""

    def has_seen_all() -> bool:
        with contextlib.suppress(OSError):
            return [job["ranks_seen"] for job in _get(f"{running.url}/api/v1/jobs")["jobs"]] == [num_ranks]
        return False

    if not wait_until(has_seen_all, _MAX_START_SECONDS):
        raise SystemExit(f"the hub has not seen {num_ranks} ranks within {_MAX_START_SECONDS:.0f} s")


def post(url: str) -> None:
    """Send an empty POST."""
    urllib.request.urlopen(url, data=b"", timeout=10).close()


def _get(url: str) -> dict[str, Any]:
    """Return an answer of JSON."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: dict[str, Any] = json.load(answer)
        return content


def _watch(running: RunningHub, seconds: float) -> Passes:
    """Watch the passes from the end of one pass to the end of a pass at least `seconds` later."""
    walls: list[float] = []
    last, _ = _wait_for_pass(running.url, -1.0)
    hub_before, players_before = cpu_seconds(running.process), cpu_seconds(running.players)
    begin = time.monotonic()
    sent_before = _sent_bytes(running)
    while time.monotonic() - begin < seconds:
        last, wall = _wait_for_pass(running.url, last)
        walls.append(wall)
    elapsed = time.monotonic() - begin
    hub_seconds = cpu_seconds(running.process) - hub_before
    return Passes(
        pass_seconds=tuple(walls),
        cpu_seconds=hub_seconds / len(walls),
        cpu_ratio=hub_seconds / elapsed,
        players_cpu_ratio=(cpu_seconds(running.players) - players_before) / elapsed,
        bytes_per_second=(_sent_bytes(running) - sent_before) / elapsed,
    )


def _wait_for_pass(url: str, last: float) -> tuple[float, float]:
    """Wait for the end of a pass after `last`; return when it ended and how long it took."""
    while True:
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
            values = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        ended = float(values.get("zmon_hub_last_pass_timestamp_seconds", last))
        if ended != last:
            return ended, float(values["zmon_hub_pass_seconds"])
        time.sleep(_LOOK_SECONDS)


def _sent_bytes(running: RunningHub) -> int:
    with urllib.request.urlopen(f"{running.cluster_url}/sent_bytes", timeout=10) as answer:
        return int(answer.read())


def _quiet_findings(running: RunningHub, seconds: float) -> int:
    """Return how many findings there are while nothing happens; each counts once."""
    ids: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ids |= {finding["id"] for finding in _get(f"{running.url}/api/v1/findings")["findings"]}
        time.sleep(_QUIET_LOOK_SECONDS)
    return len(ids)


def _seconds_to_finding(running: RunningHub, rank: int) -> float | None:
    """Stop a rank, and return the time until the finding about it; None if there is none within 30 s."""
    stopped_at = time.monotonic()
    post(f"{running.cluster_url}/strike/{rank}")
    while (elapsed := time.monotonic() - stopped_at) < _MAX_FINDING_SECONDS:
        findings = _get(f"{running.url}/api/v1/findings?active=1")["findings"]
        if any(finding["ranks"] == [rank] for finding in findings):
            return elapsed
        time.sleep(_FINDING_LOOK_SECONDS)
    return None


if __name__ == "__main__":
    main()
