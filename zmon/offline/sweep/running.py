"""Run a job at one size, watched, and bring what its steps were.

Its ranks write their boxes into a folder of their own, so no agent of this node sees them and nobody is paged.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zmon.agent.sources.boxes import Boxes
from zmon.errors import ZmonError
from zmon.offline.compare import Series, series
from zmon.offline.compare.source import logged
from zmon.offline.sweep.job import StartedCommand
from zmon.offline.sweep.sizes import Size
from zmon.probe.run import environment
from zmon.steplog import FOLDER, StepLog

LOOK_SECONDS = 0.25
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class Failed:
    """No steps came of it."""

    why: str


def run_at(
    size: Size, command: Sequence[str], env: Mapping[str, str], log: Path, seconds: float, start_seconds: float
) -> tuple[Series, int | None] | Failed:
    """What its steps were, and how many processors its ranks share; None: they compute on devices.

    Trained is for `seconds`; where no step ends within `start_seconds` it is given up.
    """
    folder = Path()
    try:
        room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = Path(tempfile.mkdtemp(prefix="zmon-scaling-", dir=room))
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
    threads = {THREADS: env.get(THREADS, "1")}  # torchrun sets it for several ranks only
    given = environment({**env, **threads, "ZMON_BOX_DIR": str(folder / "boxes")}, job_id)
    boxes, steps = Boxes(folder / "boxes", "here"), StepLog(folder / FOLDER, "here")
    try:
        with StartedCommand(command, given, log) as job:
            failed = _trained(job, boxes, steps, seconds, start_seconds)
        boxes.scan()
        devices = {box.identity.device for box, _ in boxes.ranks()}
        steps.append(boxes.files())
    finally:
        boxes.close()
        steps.close()
    if failed:
        return Failed(f"{failed}; {job.last_line()}")
    if not devices:
        return Failed(f"no rank of it imported torch and joined a process group; {job.last_line()}")
    found = series(str(size), logged(job_id, folder / FOLDER))
    if found.world_size != size.ranks:
        return Failed(f"it had {found.world_size} ranks")
    if not found.causes:
        return Failed("; ".join(found.caveats) or "its steps do not tell where their time went")
    each = max(1, int(threads[THREADS])) if threads[THREADS].isdecimal() else 1
    return found, max(1, len(os.sched_getaffinity(0)) // each) if devices == {"cpu"} else None


def _trained(job: StartedCommand, boxes: Boxes, steps: StepLog, seconds: float, start_seconds: float) -> str:
    """Watch it until it has trained for so long, or ended by itself; why no use can be made of it, if so."""
    begun, started = time.monotonic(), None
    while True:
        code = job.exit_code()
        boxes.scan()
        steps.append(boxes.files())
        states = [state for _, state in boxes.ranks()]
        if started is None and states and all(state.steps for state in states):
            started = time.monotonic()
        now = time.monotonic()
        if code is not None:
            return f"it ended with exit code {code}" if code else ""
        if started is None and now - begun > start_seconds:
            return f"no step ended within {start_seconds:.0f} s"
        if started is not None and now - started > seconds:
            return ""
        time.sleep(LOOK_SECONDS)
