"""What the agent takes of a node: processor and memory, with four live ranks that step every 20 ms.

First nobody asks it; then a hub does, as in a cluster.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.hot_path import mark_step
from bench.rows import MEBI, PERCENT, Row

RANKS = 4
_STEP_SECONDS = 0.020
_SETTLE_SECONDS = 5.0


def measure(seconds: float) -> list[Row]:
    """For so many seconds each."""
    with tempfile.TemporaryDirectory(prefix="zmon-bench-", dir="/dev/shm") as folder, _ranks(Path(folder)):
        port = _free_port()
        with _daemon("agent", "--box-dir", folder, "--port", str(port)) as agent:
            alone = _watch(agent, seconds, "agent, nobody asks")
            hub = ("hub", "--agents", f"http://127.0.0.1:{port}", "--data-dir", folder, "--port", str(_free_port()))
            with _daemon(*hub):
                return [*alone, *_watch(agent, seconds, "agent, a hub asks")]


def _watch(process: psutil.Process, seconds: float, what: str) -> list[Row]:
    time.sleep(_SETTLE_SECONDS)
    before, begin = _processor(process), time.monotonic()
    time.sleep(seconds)
    share = (_processor(process) - before) / (time.monotonic() - begin)
    return [
        Row(f"{what}: of a core", share * PERCENT, "%"),
        Row(f"{what}: resident", process.memory_info().rss * MEBI, "MiB"),
    ]


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def _ranks(folder: Path) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    ranks = [spawn.Process(target=_live, args=(folder, rank), daemon=True) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    try:
        yield
    finally:
        for rank in ranks:
            rank.terminate()
        for rank in ranks:
            rank.join()


def _live(folder: Path, rank: int) -> None:
    """A rank without torch, which would only take memory."""
    from zmon import probe

    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
        ZMON_JOB_ID="bench", ZMON_BOX_DIR=str(folder),
    )  # fmt: skip
    probe.attach_box()
    timeline = probe.current
    assert timeline is not None
    group = timeline.group("0", RANKS)
    while True:
        mark_step(timeline, group)
        time.sleep(_STEP_SECONDS)


@contextlib.contextmanager
def _daemon(*arguments: str) -> Iterator[psutil.Process]:
    command = (sys.executable, "-m", "zmon", *arguments)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
