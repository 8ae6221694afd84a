"""A rank runs into the memory limit of its control group (cgroup-v1/memory.rst, cgroup-v2.rst). Needs root."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

from zmon.drills.drill import Scene, Strike
from zmon.drills.faults.sabotage import one_rank
from zmon.drills.faults.signals import process_of
from zmon.errors import ZmonError

ROOT = Path("/sys/fs/cgroup")
ROOM_BYTES = 64 << 20  # what is charged before it moves stays with its old group, so it has this much more
EAT_BYTES = 4 * ROOM_BYTES  # at most: should the limit not hold, the machine has to
DEATH_SECONDS = 60.0
_MADE = re.compile(r"zmon-drill-(?P<pid>\d+)-.*")  # a group, by the process that made it


def unavailable() -> str | None:
    """Why no rank can be limited here; None: it can."""
    if os.geteuid() != 0:
        return "it takes root to make a control group"
    parent, _ = _place()
    return None if os.access(parent, os.W_OK) else f"no memory control group can be made under {parent}"


def out_of_memory(scene: Scene) -> Strike:
    """Limit one rank's memory, and have it take more."""
    remove_leftovers()
    rank = process_of(scene)
    parent, limits = _place()
    group = parent / f"zmon-drill-{os.getpid()}-{scene.job.spec.job_id}"
    group.mkdir()
    try:
        for limit, most in limits.items():
            if (group / limit).exists():  # where no swap is accounted for there is no limit on it
                (group / limit).write_text(str(most))
        (group / "cgroup.procs").write_text(str(scene.pid))
        one_rank("eat", EAT_BYTES, lifts=False)(scene)
        deadline = time.monotonic() + DEATH_SECONDS
        alive = time.time()
        while _lives(rank):
            alive = time.time()
            if time.monotonic() > deadline:
                raise ZmonError("the rank was not killed for want of memory", f"{group} has no effect")
            time.sleep(0.005)
        return Strike(alive)  # when it was last seen alive: at most 5 ms before its end
    finally:
        _remove(group)


def remove_leftovers() -> None:
    """Remove the groups of drills that were killed."""
    parent, _ = _place()
    with contextlib.suppress(OSError):
        for group in parent.iterdir():
            made = _MADE.fullmatch(group.name)
            if made and not _runs(int(made["pid"])):
                _remove(group)


def _place() -> tuple[Path, dict[str, int]]:
    """Where groups are made, and what the limits are called there: on memory first, then on what is swapped out."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT, {"memory.max": ROOM_BYTES, "memory.swap.max": 0}
    return ROOT / "memory", {"memory.limit_in_bytes": ROOM_BYTES, "memory.memsw.limit_in_bytes": ROOM_BYTES}


def _runs(pid: int) -> bool:
    try:
        return _lives(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _remove(group: Path) -> None:
    """What lives in it goes back to where groups are made; the dead leave once their launcher has reaped them."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has just died
                    (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
            return
        time.sleep(0.05)
