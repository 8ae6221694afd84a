"""Runs a job at one size and records its steps.

The ranks write their black boxes into a temporary directory. No agent of this node sees them, so no alert fires.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.sweep.job import StartedCommand
from lab.sweep.sizes import Size
from zmon.agent.sources.boxes import Boxes
from zmon.errors import ZmonError
from zmon.offline.compare import Series, series
from zmon.offline.compare.source import read_log
from zmon.probe.run import environment
from zmon.steplog import FOLDER, StepLog

POLL_SECONDS = 0.25  # seconds between two looks at the boxes of the job
THREADS = "OMP_NUM_THREADS"  # torch reads it from the environment


@dataclass(frozen=True)
class Run:
    """The steps of a job at one size."""

    steps: Series
    num_processors: int | None  # that its ranks share; None: the ranks compute on devices


@dataclass(frozen=True)
class FailedRun:
    """A run without usable steps."""

    reason: str


def run_at(
    size: Size, command: Sequence[str], env: Mapping[str, str], log: Path, seconds: float, start_seconds: float
) -> Run | FailedRun:
    """Run the job until it has trained for `seconds`, or has ended.

    Its training begins when every rank has ended a step. The run fails if it has not begun within `start_seconds`.
    """
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    try:
        with tempfile.TemporaryDirectory(prefix="zmon-scaling-", dir=parent, ignore_cleanup_errors=True) as folder:
            return _run(size, command, env, Path(folder), log, seconds, start_seconds)
    except OSError as error:
        return FailedRun(f"{error.filename or command[0]}: {error.strerror or error}")
    except ZmonError as error:
        return FailedRun(str(error))


def _run(
    size: Size,
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    log: Path,
    seconds: float,
    start_seconds: float,
) -> Run | FailedRun:
    job_id = f"scaling-{size.ranks}x{size.batch or 'own'}"
    threads = {THREADS: env.get(THREADS, "1")}  # torchrun sets it only if it starts several ranks
    job_env = environment({**env, **threads, "ZMON_BOX_DIR": str(folder / "boxes")}, job_id)
    boxes = Boxes(folder / "boxes", "here")
    step_log = StepLog(folder / FOLDER, "here")
    try:
        with StartedCommand(command, job_env, log) as job:
            problem = _train(job, boxes, step_log, seconds, start_seconds)
        boxes.scan()
        devices = {box.identity.device for box, _ in boxes.ranks()}
        step_log.append(boxes.files)
    finally:
        boxes.close()
        step_log.close()
    if problem:
        return FailedRun(f"{problem}; {job.last_line()}")
    if not devices:
        return FailedRun(f"no rank imported torch and joined a process group; {job.last_line()}")
    steps = series(str(size), read_log(job_id, folder / FOLDER))
    if steps.world_size != size.ranks:
        return FailedRun(f"the job had {steps.world_size} ranks")
    if not steps.causes:
        return FailedRun("; ".join(steps.caveats) or "its step records have no time categories")
    if devices != {"cpu"}:
        return Run(steps, num_processors=None)
    threads_per_rank = max(1, int(threads[THREADS])) if threads[THREADS].isdecimal() else 1
    return Run(steps, max(1, len(os.sched_getaffinity(0)) // threads_per_rank))


def _train(job: StartedCommand, boxes: Boxes, step_log: StepLog, seconds: float, start_seconds: float) -> str:
    """Record steps until the job has trained for `seconds` or has ended. Return why it failed; "" if it did not."""
    launched_at = time.monotonic()
    trained_since: float | None = None
    while True:
        code = job.exit_code()
        boxes.scan()
        step_log.append(boxes.files)
        states = [state for _, state in boxes.ranks()]
        if trained_since is None and states and all(state.steps for state in states):
            trained_since = time.monotonic()
        now = time.monotonic()
        if code is not None:
            return f"the command ended with exit code {code}" if code else ""
        if trained_since is None and now - launched_at > start_seconds:
            return f"no step ended within {start_seconds:.0f} s"
        if trained_since is not None and now - trained_since > seconds:
            return ""
        time.sleep(POLL_SECONDS)
