"""The cost of an agent: CPU, memory and time to answer, with live ranks that step every 20 ms.

The benchmark scrapes the agent every two seconds, as Prometheus would. In the second half a hub polls it too. The boxes
are real. The ranks run without torch.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.hot_path import mark_step
from bench.rows import MEBI, PERCENT, Row

RANKS = 8
SCRAPE_SECONDS = 2.0
_STEP_SECONDS = 0.020
_SETTLE_SECONDS = 5.0


@dataclass(frozen=True)
class Cost:
    """The cost of an agent over some time."""

    core: float  # share of one core
    resident_bytes: int
    scrape_seconds: tuple[float, ...]
    num_series: int
    num_rank_series: int  # series of one rank


def measure(seconds: float, ranks: int = RANKS) -> list[Row]:
    """Measure the agent without and with a hub, for `seconds` each."""
    rows = []
    for clients, cost in zip(("scraped", "scraped and polled by a hub"), costs(seconds, ranks), strict=True):
        rows += [
            Row(f"agent, {clients}: of a core", cost.core * PERCENT, "%"),
            Row(f"agent, {clients}: resident", cost.resident_bytes * MEBI, "MiB"),
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
    scrapes, page = [], ""
    cpu_before, begin = _cpu_seconds(process), time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        scrape_begin = time.perf_counter()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
        scrapes.append(time.perf_counter() - scrape_begin)
        time.sleep(min(SCRAPE_SECONDS, max(seconds - elapsed, 0.0)))
    share = (_cpu_seconds(process) - cpu_before) / (time.monotonic() - begin)
    series = [line for line in page.splitlines() if line[0] != "#"]
    return Cost(
        share,
        process.memory_info().rss,
        tuple(scrapes),
        len(series),
        sum('job_id="bench",' in line and 'rank="0"' in line for line in series),
    )


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def ranks_running(folder: Path, number: int) -> Iterator[list[int]]:
    """Run this number of ranks with their boxes in a folder; yield their pids."""
    spawn = multiprocessing.get_context("spawn")
    ranks = [
        spawn.Process(target=_run_rank, args=(folder / "boxes", rank, number), daemon=True) for rank in range(number)
    ]
    for rank in ranks:
        rank.start()
    try:
        yield [rank.pid or 0 for rank in ranks]
    finally:
        for rank in ranks:
            rank.terminate()
        for rank in ranks:
            rank.join()


def _run_rank(boxes: Path, rank: int, number: int) -> None:
    """Run a rank without torch, which would only take memory."""
    from zmon import probe

    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(number), LOCAL_WORLD_SIZE=str(number),
        ZMON_JOB_ID="bench", ZMON_BOX_DIR=str(boxes),
    )  # fmt: skip
    probe.attach_box()
    timeline = probe.current
    assert timeline is not None
    group = timeline.group("0", number)
    while True:
        mark_step(timeline, group)
        time.sleep(_STEP_SECONDS)


def daemon(*arguments: str, log: Path | None = None) -> AbstractContextManager[psutil.Process]:
    """Start a command of zmon as a process that ends with the block."""
    return child(sys.executable, "-m", "zmon", *arguments, log=log)


@contextlib.contextmanager
def child(*command: str, log: Path | None = None) -> Iterator[psutil.Process]:
    """Start a process that ends with the block; its output goes to `log`, if that is given."""
    with (log or Path(os.devnull)).open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
