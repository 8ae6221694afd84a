"""A rank runs into the memory limit of its control group (cgroup-v1/memory.rst, cgroup-v2.rst). Needs root."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import one_rank
from zmon.errors import ZmonError

ROOT = Path("/sys/fs/cgroup")
ROOM_BYTES = 64 << 20  # what is charged before it moves stays with its old group, so it has this much more
DEATH_SECONDS = 60.0


def unavailable() -> str | None:
    """Why no rank can be limited here; None: it can."""
    if os.geteuid() != 0:
        return "it takes root to make a control group"
    parent, _ = _place()
    return None if os.access(parent, os.W_OK) else f"no memory control group can be made under {parent}"


def out_of_memory(scene: Scene) -> Strike:
    """Limit one rank's memory, and have it take more."""
    parent, limit = _place()
    group = parent / f"zmon-drill-{os.getpid()}-{scene.job.spec.job_id}"
    group.mkdir()
    try:
        (group / limit).write_text(str(ROOM_BYTES))
        (group / "cgroup.procs").write_text(str(scene.pid))
        one_rank("eat", lifts=False)(scene)
        process, deadline = psutil.Process(scene.pid), time.monotonic() + DEATH_SECONDS
        alive = time.time()
        while _lives(process):
            alive = time.time()
            if time.monotonic() > deadline:
                raise ZmonError("the rank was not killed for want of memory", f"{group} has no effect")
            time.sleep(0.005)
        return Strike(alive)  # when it was last seen alive: at most 5 ms before its end
    finally:
        _remove(group)


def _place() -> tuple[Path, str]:
    """Where groups are made, and what the limit is called there."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT, "memory.max"
    return ROOT / "memory", "memory.limit_in_bytes"


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _remove(group: Path) -> None:
    """It can go once its launcher has reaped the rank."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)
