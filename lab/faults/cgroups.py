"""Faults by control groups: a rank exceeds its memory, a rank reads its disk slowly, or a whole job is paused.

Needs root. Source: cgroup-v1/memory.rst, cgroup-v1/blkio-controller.rst, cgroup-v1/freezer-subsystem.rst and
cgroup-v2.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from lab.drills.drill import Injection, Scene
from lab.faults.sabotage import one_rank
from lab.faults.signals import process_of
from lab.stage.launched import running
from zmon.errors import ZmonError

ROOT = Path("/sys/fs/cgroup")
# The limit of the group. Memory charged before the rank moved stays with its old group, so the rank can still allocate
# this much.
LIMIT_BYTES = 64 << 20
EAT_BYTES = 4 * LIMIT_BYTES  # the rank allocates no more, so the machine survives if the limit has no effect
PAUSED_SECONDS = 6.0
DEATH_SECONDS = 60.0  # the kernel must kill the rank within this time
_POLL_SECONDS = 0.005
_REMOVALS, _REMOVAL_SECONDS = 100, 0.05  # attempts to remove a group, and the time between two of them
_GROUP_NAME = re.compile(r"zmon-drill-(?P<pid>\d+)-.*")  # contains the pid of the process that made the group


def unavailable(controller: str = "memory") -> Callable[[], str | None]:
    """Return a function that returns why no group can be made here, or None if one can be."""

    def reason() -> str | None:
        if os.geteuid() != 0:
            return "making a control group needs root"
        parent = _parent(controller)
        return None if os.access(parent, os.W_OK) else f"no {controller} control group can be made under {parent}"

    return reason


def out_of_memory(scene: Scene) -> Injection:
    """Limit one rank's memory, and make it allocate more."""
    remove_leftovers()
    rank = process_of(scene)
    group = _make_group("memory", scene)
    try:
        for limit, max_bytes in _memory_limits().items():
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
            time.sleep(_POLL_SECONDS)
        return Injection(last_alive)  # the rank ended before the next look
    finally:
        _remove(group)


def slow_reads(scene: Scene, device: str, bytes_per_second: int) -> Callable[[], None]:
    """Limit how fast the rank reads this device (major:minor); return a function that removes the limit."""
    remove_leftovers()
    with contextlib.ExitStack() as undo:
        group = _make_group("blkio", scene)
        undo.callback(_remove, group)
        limit = group / "blkio.throttle.read_bps_device"
        if limit.exists():
            limit.write_text(f"{device} {bytes_per_second}")
        else:
            (group / "io.max").write_text(f"{device} rbps={bytes_per_second}")
        (group / "cgroup.procs").write_text(str(scene.pid))
        return undo.pop_all().close


def container_paused(scene: Scene) -> Injection:
    """Freeze the launchers and all ranks of the job for some seconds, as `docker pause` freezes a container."""
    remove_leftovers()
    group = _make_group("freezer", scene)
    file, frozen, thawed = group / "freezer.state", "FROZEN", "THAWED"  # cgroup v1
    if not file.exists():
        file, frozen, thawed = group / "cgroup.freeze", "1", "0"
    try:
        for process in running(scene.job.folder):
            with contextlib.suppress(OSError):  # it has just ended
                (group / "cgroup.procs").write_text(str(process.pid))
        onset = time.time()
        file.write_text(frozen)
        time.sleep(PAUSED_SECONDS)
    finally:
        file.write_text(thawed)
        _remove(group)
    return Injection(onset)


def remove_leftovers() -> None:
    """Remove the groups of drills that were killed."""
    for controller in ("memory", "blkio", "freezer"):
        with contextlib.suppress(OSError):
            for group in _parent(controller).iterdir():
                match = _GROUP_NAME.fullmatch(group.name)
                if match and not _runs(int(match["pid"])):
                    _remove(group)


def _parent(controller: str) -> Path:
    """Return the directory in which groups are made."""
    return ROOT if (ROOT / "cgroup.controllers").exists() else ROOT / controller


def _make_group(controller: str, scene: Scene) -> Path:
    group = _parent(controller) / f"zmon-drill-{os.getpid()}-{scene.job.spec.job_id}"
    group.mkdir()
    return group


def _memory_limits() -> dict[str, int]:
    """Return the limits by file name: first on memory, then on swap."""
    if (ROOT / "cgroup.controllers").exists():
        return {"memory.max": LIMIT_BYTES, "memory.swap.max": 0}
    return {"memory.limit_in_bytes": LIMIT_BYTES, "memory.memsw.limit_in_bytes": LIMIT_BYTES}


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
    for _ in range(_REMOVALS):
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has just died
                    (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()
            return
        time.sleep(_REMOVAL_SECONDS)
