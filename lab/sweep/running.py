"""Runs a job at one size and records its steps.

The ranks write their black boxes into a temporary directory. No agent of this node sees them, so no alert fires.
"""

from __future__ import annotations

import os
import shutil
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
class Failed:
    """A run without usable steps."""

    why: str


def run_at(
    size: Size, command: Sequence[str], env: Mapping[str, str], log: Path, seconds: float, start_seconds: float
) -> tuple[Series, int | None] | Failed:
    """Run the job; return its steps, and the number of processors that its ranks share.

    That number is None if the ranks compute on devices. The job trains for `seconds`. The run fails if no step ends
    within `start_seconds`.
    """
    folder = Path()
    try:
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = Path(tempfile.mkdtemp(prefix="zmon-scaling-", dir=parent))
        return _run(size, command, env, folder, log, seconds, start_seconds)
    except OSError as error:
        return Failed(f"{error.filename or command[0]}: {error.strerror or error}")
    except ZmonError as error:
        return Failed(str(error))
    finally:
        if folder.name:
            shutil.rmtree(folder, ignore_errors=True)


def _run(
    size: Size,
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    log: Path,
    seconds: float,
    start_seconds: float,
) -> tuple[Series, int | None] | Failed:
    job_id = f"scaling-{size.ranks}x{size.batch or 'own'}"
    threads = {THREADS: env.get(THREADS, "1")}  # torchrun sets it only if it starts several ranks
    job_env = environment({**env, **threads, "ZMON_BOX_DIR": str(folder / "boxes")}, job_id)
    boxes = Boxes(folder / "boxes", "here")
    steps = StepLog(folder / FOLDER, "here")
    try:
        with StartedCommand(command, job_env, log) as job:
            problem = _train(job, boxes, steps, seconds, start_seconds)
        boxes.scan()
        devices = {box.identity.device for box, _ in boxes.ranks()}
        steps.append(boxes.files)
    finally:
        boxes.close()
        steps.close()
    if problem:
        return Failed(f"{problem}; {job.last_line()}")
    if not devices:
        return Failed(f"no rank imported torch and joined a process group; {job.last_line()}")
    run = series(str(size), read_log(job_id, folder / FOLDER))
    if run.world_size != size.ranks:
        return Failed(f"the job had {run.world_size} ranks")
    if not run.causes:
        return Failed("; ".join(run.caveats) or "its step records have no time categories")
    threads_per_rank = max(1, int(threads[THREADS])) if threads[THREADS].isdecimal() else 1
    return run, max(1, len(os.sched_getaffinity(0)) // threads_per_rank) if devices == {"cpu"} else None


def _train(job: StartedCommand, boxes: Boxes, steps: StepLog, seconds: float, start_seconds: float) -> str:
    """Record steps until the job has trained for `seconds` or has ended. Return why it failed; "" if it did not."""
    launched_at = time.monotonic()
    trained_since: float | None = None
    while True:
        code = job.exit_code()
        boxes.scan()
        steps.append(boxes.files)
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
