"""Make the disk with a rank's embedding rows slow: limit its reads, and keep its rows out of the page cache.

A buffered read goes to the disk only if its page is not in the page cache. The file of rows has no name, so it is
opened through the rank that has it open.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from lab.drills.drill import Injection, Scene
from lab.faults import cgroups
from lab.jobs.orders import median_seconds
from zmon.errors import ZmonError

READ_BYTES = 150 * 4096  # the rank may read 150 pages in the time of a usual step: fewer than its steps need
_FORGET_SECONDS = 0.02  # between two drops of the pages


def reads_slowly(scene: Scene) -> Injection:
    """Limit how fast one rank reads the disk with its rows."""
    with ExitStack() as undo:
        file = _open_rows(scene)
        undo.callback(os.close, file)
        usual = median_seconds(scene.job.folder) or scene.job.spec.step_seconds
        undo.callback(cgroups.slow_reads(scene, _device_of(file), round(READ_BYTES / usual)))
        onset = time.time()
        lifted = threading.Event()
        forgetting = threading.Thread(target=_forget, args=(file, lifted), daemon=True)
        forgetting.start()
        undo.callback(forgetting.join)
        undo.callback(lifted.set)
        return Injection(onset, undo.pop_all().close)


def _open_rows(scene: Scene) -> int:
    folder = f"{scene.job.folder}/rows/"
    for link in Path(f"/proc/{scene.pid}/fd").iterdir():
        if str(link.readlink()).startswith(folder):
            return os.open(link, os.O_RDONLY)
    raise ZmonError(f"rank {scene.rank} has no rows on a disk", f"it has no file in {folder}")


def _device_of(file: int) -> str:
    """Return the disk that a file is on, as control groups name it. A limit holds for a whole disk."""
    device = os.fstat(file).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    block = Path(f"/sys/dev/block/{name}").resolve()
    if not block.exists():
        raise ZmonError("the rows are on no disk", f"{name} is no block device", "set TMPDIR to a folder on a disk")
    return (block.parent / "dev").read_text().strip() if (block / "partition").exists() else name


def _forget(file: int, lifted: threading.Event) -> None:
    """Drop the pages of a file from the page cache until the fault is lifted."""
    while not lifted.wait(_FORGET_SECONDS):
        os.fdatasync(file)  # only clean pages are dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
