"""Make a rank exceed the memory limit of its control group. Needs root.

Source: cgroup-v1/memory.rst and cgroup-v2.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import one_rank
from lab.faults.signals import process_of
from zmon.errors import ZmonError

ROOT = Path("/sys/fs/cgroup")
# The limit of the group. Memory charged before the rank moved stays with its old group, so the rank can still allocate
# this much.
LIMIT_BYTES = 64 << 20
EAT_BYTES = 4 * LIMIT_BYTES  # the rank allocates no more, so the machine survives if the limit has no effect
DEATH_SECONDS = 60.0  # the kernel must kill the rank within this time
_GROUP_NAME = re.compile(r"zmon-drill-(?P<pid>\d+)-.*")  # contains the pid of the process that made the group


def unavailable() -> str | None:
    """Return the reason why the memory of a rank cannot be limited on this machine, or None if it can be."""
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
        return Injection(last_alive)  # the rank ended at most 5 ms later
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
    """Return the directory in which groups are made, and the limits by file name: first on memory, then on swap."""
    if (ROOT / "cgroup.controllers").exists():
        return ROOT, {"memory.max": LIMIT_BYTES, "memory.swap.max": 0}
    return ROOT / "memory", {"memory.limit_in_bytes": LIMIT_BYTES, "memory.memsw.limit_in_bytes": LIMIT_BYTES}


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
    """Move the processes of a group to its parent, and remove it. Dead processes leave once they are reaped."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has just died
                    (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
            return
        time.sleep(0.05)
