"""Make a rank exceed the memory limit of its control group (cgroup-v1/memory.rst, cgroup-v2.rst). Needs root."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

from zmon.drills.drill import Injection, Scene
from zmon.drills.faults.sabotage import one_rank
from zmon.drills.faults.signals import process_of
from zmon.errors import ZmonError

ROOT = Path("/sys/fs/cgroup")
ROOM_BYTES = (
    64 << 20
)  # memory charged before the move stays with the old group, so the rank can allocate this much more
EAT_BYTES = 4 * ROOM_BYTES  # the most that the rank allocates: if the limit has no effect, the machine must survive it
DEATH_SECONDS = 60.0
_GROUP_NAME = re.compile(r"zmon-drill-(?P<pid>\d+)-.*")  # with the pid of the process that made the group


def unavailable() -> str | None:
    """Return why the memory of a rank cannot be limited on this machine, or None if it can."""
    if os.geteuid() != 0:
        return "making a control group needs root"
    parent, _ = _hierarchy()
    return None if os.access(parent, os.W_OK) else f"no memory control group can be made under {parent}"


def out_of_memory(scene: Scene) -> Injection:
    """Limit one rank's memory, and make it allocate more."""
    remove_leftovers()
    rank = process_of(scene)
    parent, limits = _hierarchy()
    group = parent / f"zmon-drill-{os.getpid()}-{scene.job.spec.job_id}"
    group.mkdir()
    try:
        for limit, max_bytes in limits.items():
            if (group / limit).exists():  # a kernel without swap accounting has no limit on swap
                (group / limit).write_text(str(max_bytes))
        (group / "cgroup.procs").write_text(str(scene.pid))
        one_rank("eat", EAT_BYTES, lifts=False)(scene)
        deadline = time.monotonic() + DEATH_SECONDS
        last_alive = time.time()
        while _is_alive(rank):
            last_alive = time.time()
            if time.monotonic() > deadline:
                raise ZmonError("the kernel did not kill the rank for lack of memory", f"{group} has no effect")
            time.sleep(0.005)
        return Injection(last_alive)  # at most 5 ms before its end
    finally:
        _remove(group)


def remove_leftovers() -> None:
    """Remove the groups of drills that were killed."""
    parent, _ = _hierarchy()
    with contextlib.suppress(OSError):
        for group in parent.iterdir():
            match = _GROUP_NAME.fullmatch(group.name)
            if match and not _runs(int(match["pid"])):
                _remove(group)


def _hierarchy() -> tuple[Path, dict[str, int]]:
    """Return the folder in which groups are made, and the limits by file name: first on memory, then on swap."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT, {"memory.max": ROOM_BYTES, "memory.swap.max": 0}
    return ROOT / "memory", {"memory.limit_in_bytes": ROOM_BYTES, "memory.memsw.limit_in_bytes": ROOM_BYTES}


def _runs(pid: int) -> bool:
    try:
        return _is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _remove(group: Path) -> None:
    """Remove a group after moving its processes to the parent; the dead leave once their launcher has reaped them."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has just died
                    (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
            return
        time.sleep(0.05)
