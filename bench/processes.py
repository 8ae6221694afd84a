"""The processes that benchmarks start and end: daemons of zmon, other commands, and ranks without torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from bench.hot_path import mark_step

_STEP_SECONDS = 0.020  # of a rank: a short step, so that the agent has much to read


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
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def ranks_running(folder: Path, num_ranks: int) -> Iterator[list[int]]:
    """Run ranks that step every 20 ms, with their boxes in a folder; yield their pids."""
    spawn = multiprocessing.get_context("spawn")
    boxes = folder / "boxes"
    ranks = [spawn.Process(target=_run_rank, args=(boxes, rank, num_ranks), daemon=True) for rank in range(num_ranks)]
    for rank in ranks:
        rank.start()
    try:
        yield [rank.pid or 0 for rank in ranks]
    finally:
        for rank in ranks:
            rank.terminate()
        for rank in ranks:
            rank.join()


def _run_rank(boxes: Path, rank: int, num_ranks: int) -> None:
    """Run a rank without torch, which would only take memory."""
    from zmon import probe

    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(num_ranks), LOCAL_WORLD_SIZE=str(num_ranks),
        ZMON_JOB_ID="bench", ZMON_BOX_DIR=str(boxes),
    )  # fmt: skip
    probe.attach_box()
    timeline = probe.current
    assert timeline is not None
    group = timeline.group("0", num_ranks)
    while True:
        mark_step(timeline, group)
        time.sleep(_STEP_SECONDS)
