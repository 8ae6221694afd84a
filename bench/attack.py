"""The answers of an agent and a hub under attack. Takes a minute.

    python -m bench.attack [--seconds N] [--ranks N] [--files N]

Each daemon may open 1,024 files. 1,100 clients send half a request, 10 a body of 100 MB, and 50 ask for large answers
(bench/attackers.py), all at the same time from the address of Prometheus. Meanwhile a rank is killed. For each daemon,
the table has the time of scrapes of /metrics, and the open files and resident memory: the maximum, and at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.processes import child, ranks_running
from bench.rows import MIB_PER_BYTE, load_line, parser_of, table_line
from lab.faults.sabotage import wait_until
from lab.jobs.without_torchrun import free_port

_NUM_HALF_REQUESTS = 1100  # clients that send half a request
_NUM_BODIES = 10  # clients that send a body of 100 MB
_NUM_READERS = 50  # clients that ask for large answers
_AGENT_PATHS = ("/api/v1/snapshot?since=0", "/metrics")
_HUB_PATHS = ("/api/v1/findings", "/api/v1/incidents", "/metrics", "/api/v1/jobs")
_ASK_SECONDS = 0.1  # between two scrapes
_TIMEOUT_SECONDS = 10.0  # Prometheus' own
_START_SECONDS = 30.0
_MAX_SECONDS = 60.0  # for the finding, and for the recovery of the daemons
_OWN_FILES = 16  # a daemon opens and closes some itself
_HEADS = (
    "daemon", "scrapes", "failed", "p50", "p99", "slowest", "files", "at the end", "resident", "at the end", "log",
)  # fmt: skip


@dataclass
class Attacked:
    """One daemon under attack."""

    process: psutil.Process
    url: str
    log: Path
    files_before: int  # open before the attack
    scrape_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # of scrapes
    most_files: int = 0  # open at the same time
    most_bytes: int = 0  # of resident memory
    end_files: int = 0  # open when `look` was called last
    end_bytes: int = 0  # of resident memory, at the same time

    def scrape(self) -> None:
        """Get /metrics once, and look at the files and the memory of the daemon."""
        begin = time.monotonic()
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
                answer.read()
        except OSError as error:
            self.failures.append(f"{time.monotonic() - begin:.1f} s: {error}")
        self.scrape_seconds.append(time.monotonic() - begin)
        self.look()

    def look(self) -> None:
        """Note the open files and the memory of the daemon."""
        self.end_files = self.process.num_fds()
        self.end_bytes = int(self.process.memory_info().rss)
        self.most_files = max(self.most_files, self.end_files)
        self.most_bytes = max(self.most_bytes, self.end_bytes)

    @property
    def has_closed_files(self) -> bool:
        """True if the daemon had, when `look` was called last, about as many open files as before the attack."""
        return self.end_files <= self.files_before + _OWN_FILES


@dataclass(frozen=True)
class Outcome:
    """The result of an attack."""

    agent: Attacked
    hub: Attacked
    finding_seconds: float | None  # from the death of a rank to its finding; None: no finding
    statuses: dict[str, dict[str, int]]  # by daemon: how often each answer was given to the attackers


@contextlib.contextmanager
def daemons(folder: Path, max_files: int) -> Iterator[tuple[Attacked, Attacked]]:
    """Run an agent and a hub, each of which may open `max_files` files; yield both."""
    agent_port, hub_port = free_port(), free_port()
    agent_url, hub_url = (f"http://127.0.0.1:{port}" for port in (agent_port, hub_port))
    agent_options = ("--box-dir", str(folder / "boxes"), "--data-dir", str(folder / "agent"), "--port", str(agent_port))
    hub_options = ("--agents", agent_url, "--data-dir", str(folder / "hub"), "--port", str(hub_port))
    limited = ("sh", "-c", f'ulimit -n {max_files}; exec "$@"', "sh", sys.executable, "-m", "zmon")
    agent_log, hub_log = folder / "agent.log", folder / "hub.log"
    with (
        child(*limited, "agent", *agent_options, log=agent_log) as agent,
        child(*limited, "hub", *hub_options, log=hub_log) as hub,
    ):
        wait_until(lambda: list_of(f"{hub_url}/api/v1/jobs"), _START_SECONDS)
        yield Attacked(agent, agent_url, agent_log, agent.num_fds()), Attacked(hub, hub_url, hub_log, hub.num_fds())


def attack(folder: Path, seconds: float, num_ranks: int, max_files: int = 1024) -> Outcome:
    """Attack both daemons for this time, during which a rank is killed, then wait until they have recovered.

    If its death is not reported, the attack lasts a minute instead. The recovery may take another minute.
    """
    with ranks_running(folder, num_ranks) as pids, daemons(folder, max_files) as (agent, hub):
        begin = time.monotonic()
        killed_at = None
        finding_seconds = None
        attackers = {
            name: _attackers(daemon.url, paths)
            for name, daemon, paths in (("agent", agent, _AGENT_PATHS), ("hub", hub, _HUB_PATHS))
        }
        try:
            while (elapsed := time.monotonic() - begin) < (seconds if finding_seconds else _MAX_SECONDS):
                for daemon in (agent, hub):
                    daemon.scrape()
                if killed_at is None:
                    if elapsed > seconds / 3:
                        os.kill(pids[-1], signal.SIGKILL)
                        killed_at = time.monotonic()
                elif finding_seconds is None and list_of(f"{hub.url}/api/v1/findings?active=1&evidence=0"):
                    finding_seconds = time.monotonic() - killed_at
                time.sleep(_ASK_SECONDS)
        finally:
            for process in attackers.values():
                process.terminate()
        statuses = {name: json.loads(process.communicate()[0]) for name, process in attackers.items()}
        _wait_until_recovered(agent, hub)
        return Outcome(agent, hub, finding_seconds, statuses)


def _wait_until_recovered(*daemons: Attacked) -> None:
    """Wait until the daemons have closed the connections of the attackers, for a minute at most."""
    deadline = time.monotonic() + _MAX_SECONDS
    for daemon in daemons:
        daemon.look()
        while not daemon.has_closed_files and time.monotonic() < deadline:
            time.sleep(_ASK_SECONDS)
            daemon.look()


def _attackers(url: str, paths: Sequence[str]) -> subprocess.Popen[bytes]:
    numbers = map(str, (_NUM_HALF_REQUESTS, _NUM_BODIES, _NUM_READERS))
    return subprocess.Popen([sys.executable, "-m", "bench.attackers", url, *numbers, *paths], stdout=subprocess.PIPE)


def list_of(url: str) -> list[object]:
    """Return the list in the answer of a daemon; empty without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            return next(value for value in json.load(answer).values() if isinstance(value, list))
    except (OSError, ValueError):
        return []


def main() -> None:
    """Measure and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of the attack (30)")
    parser.add_argument("--ranks", type=int, default=8, help="ranks on the node (8)")
    parser.add_argument("--files", type=int, default=1024, help="open files that each daemon may have (1024)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder:
        outcome = attack(Path(folder), arguments.seconds, arguments.ranks, arguments.files)
        print(table_line(_HEADS, _HEADS))
        for name, daemon in (("agent", outcome.agent), ("hub", outcome.hub)):
            print(table_line((name, *_cells(daemon)), _HEADS))
    for name, statuses in outcome.statuses.items():
        print(f"the attackers of the {name}: " + ", ".join(f"{text} {n}" for text, n in sorted(statuses.items())))
    finding = "none" if outcome.finding_seconds is None else f"{outcome.finding_seconds:.1f} s"
    print(f"killed rank to finding: {finding} {load_line()}")


def _cells(daemon: Attacked) -> tuple[str, ...]:
    quantiles = statistics.quantiles(daemon.scrape_seconds, n=100, method="inclusive")
    return (
        str(len(daemon.scrape_seconds)),
        str(len(daemon.failures)),
        *(f"{seconds * 1000:.0f} ms" for seconds in (quantiles[49], quantiles[98], max(daemon.scrape_seconds))),
        str(daemon.most_files),
        str(daemon.end_files),
        *(f"{number * MIB_PER_BYTE:.0f} MiB" for number in (daemon.most_bytes, daemon.end_bytes)),
        f"{daemon.log.stat().st_size / 1000:.0f} kB",
    )


if __name__ == "__main__":
    main()
