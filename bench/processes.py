"""The processes that benchmarks start and end: daemons of zmon, other commands, and ranks without torch."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from bench.hot_path import mark_step

_STEP_SECONDS = 0.020  # of a rank: a short step, so that the agent has much to read
_START_SECONDS = 60.0


def daemon(*arguments: str, log: Path | None = None) -> AbstractContextManager[psutil.Process]:
    """Start a command of zmon as a process that ends with the block."""
    return child(sys.executable, "-m", "zmon", *arguments, log=log)


@contextlib.contextmanager
def child(*command: str, log: Path | None = None) -> Iterator[psutil.Process]:
    """Start a process that ends with the block; its output is appended to `log`, or dropped without one."""
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


@contextlib.contextmanager
def spawn(function: Callable[..., object], *arguments: object) -> Iterator[psutil.Process]:
    """Run a function in a process that ends with the block."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments, daemon=True)
    process.start()
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.join()


def is_alive(process: psutil.Process) -> bool:
    """Return False for a process that has ended, whether or not its parent has reaped it."""
    return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE


def cpu_seconds(process: psutil.Process) -> float:
    """Return the CPU time of a process so far, in user mode and in the kernel."""
    times = process.cpu_times()
    return float(times.user + times.system)


def wait_for_answer(url: str, process: psutil.Process) -> None:
    """Wait until the server of this process answers. Raises SystemExit if it ends, or needs more than a minute."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if not is_alive(process):
            raise SystemExit(f"the server at {url} ended before it answered")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=5).close()
            return
        time.sleep(0.1)
    raise SystemExit(f"no server answers at {url} within {_START_SECONDS:g} s")


@contextlib.contextmanager
def ranks_running(folder: Path, num_ranks: int) -> Iterator[list[int]]:
    """Run ranks that step every 20 ms, with their boxes in a folder; yield their pids."""
    with contextlib.ExitStack() as stack:
        boxes = folder / "boxes"
        yield [stack.enter_context(spawn(_run_rank, boxes, rank, num_ranks)).pid for rank in range(num_ranks)]


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
