"""Run a job at one size, watched, and bring what its steps were.

Its ranks write their boxes into a folder of their own, so no agent of this node sees them and nobody is paged. What was
started is ended, whatever happens.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from zmon.compare import Series, series, steps_of
from zmon.errors import UsageError
from zmon.run import environment
from zmon.scaling.sizes import Size
from zmon.sources.boxes import Boxes
from zmon.steplog import FOLDER, StepLog

LOOK_SECONDS = 0.25
END_SECONDS = 20.0  # that a job has to end by itself once it is asked to
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
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="zmon-scaling-", dir=room))
    job_id = f"scaling-{size.ranks}x{size.batch or 'own'}"
    threads = {THREADS: env.get(THREADS, "1")}  # torchrun sets it for several ranks only
    try:
        given = environment({**env, **threads, "ZMON_BOX_DIR": str(folder / "boxes")}, job_id)
        boxes, steps = Boxes(folder / "boxes", "here"), StepLog(folder / FOLDER, "here")
        with _started(command, given, log) as job:
            ended = _trained(job, boxes, steps, seconds, start_seconds)
        devices = {box.identity.device for box, _ in boxes.ranks()}
        steps.append(boxes.files())
        steps.close()
        if ended:
            return Failed(f"{ended}; {_last_line(log)}")
        return _told(size, folder, job_id, devices, int(threads[THREADS]) if threads[THREADS].isdecimal() else 1)
    except OSError as error:
        return Failed(f"{error.filename or command[0]}: {error.strerror or error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _trained(job: subprocess.Popen[bytes], boxes: Boxes, steps: StepLog, seconds: float, start_seconds: float) -> str:
    """Watch it until it has trained for so long, or ended by itself; why no use can be made of it, if so."""
    begun, started = time.monotonic(), None
    while True:
        code = job.poll()
        boxes.look()
        steps.append(boxes.files())
        if started is None and all(state.steps for _, state in boxes.ranks()) and boxes.files():
            started = time.monotonic()
        now = time.monotonic()
        if code is not None:
            return f"it ended with exit code {code}" if code else ""
        if started is None and now - begun > start_seconds:
            return f"no step ended within {start_seconds:.0f} s"
        if started is not None and now - started > seconds:
            return ""
        time.sleep(LOOK_SECONDS)


def _told(size: Size, folder: Path, job_id: str, devices: set[str], threads: int) -> tuple[Series, int | None] | Failed:
    if not devices:
        return Failed("no rank of it imported torch and joined a process group, so none was seen")
    try:
        found = series(str(size), steps_of(job_id, folder))
    except UsageError as error:
        return Failed(str(error))
    if found.world_size != size.ranks:
        return Failed(f"it had {found.world_size} ranks")
    if not found.causes:
        return Failed("; ".join(found.caveats) or "its steps do not tell where their time went")
    processors = max(1, len(os.sched_getaffinity(0)) // threads) if devices == {"cpu"} else None
    return found, processors


@contextlib.contextmanager
def _started(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Started, and ended with all that it started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        job = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield job
    finally:
        family = _family(job.pid)
        job.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(END_SECONDS)
        for process in family:  # psutil knows a process again by when it was started
            with contextlib.suppress(psutil.Error):
                process.kill()
        job.wait()


def _family(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"it said last: {lines[-1][:200]} (all of it is in {log})" if lines else "it said nothing"
