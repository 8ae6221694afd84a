"""Read the memory and CPU limits of the ranks' control groups, and whether the ranks reached them.

Layout: Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1/memory.rst and scheduler/sched-bwc.rst for v1. A hybrid
host has some controllers of v1 and the rest of v2 under `unified`. A limit may come from any level above, such as a pod
or a job. The sample has the smallest limit, and the memory used at the same level, page cache included, so that both
are comparable. Throttling is the sum of all levels; OOM kills are those of the group's own processes.

The agent sees a group only under its own /sys/fs/cgroup. To see groups of ranks in other containers, it must run in the
host's cgroup namespace. What it cannot see is unknown, and reported.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from zmon.agent.sources.reading import Ranks, Reading, number_after, take_first, text_of
from zmon.schema.host import CgroupSample

MAX_CGROUPS = 64
REMEMBER_SECONDS = 60.0  # how long a dead rank still counts as a member of its group
V2 = ""  # /proc/<pid>/cgroup names no controllers on the line of v2
V1_UNLIMITED = 1 << 62  # v1 writes "no limit" as the largest number of whole pages


class _Membership(NamedTuple):
    """The control group of a rank at the last read that saw the rank."""

    time: float  # of that read
    path: str  # that names the group
    controllers: dict[str, str]  # path by controller


class CgroupMemory(NamedTuple):
    """The memory controller at one level. None: unknown, or no limit."""

    used: int | None  # bytes
    limit: int | None  # bytes
    oom_kills: int | None


class CgroupCpu(NamedTuple):
    """The cpu controller at one level. None: unknown, or no limit."""

    cores: float | None  # the limit
    throttled_seconds: float | None


class CgroupSource:
    """The control groups of this host's ranks, also of ranks that died in the last minute: they show OOM kills."""

    name = "cgroups"
    field = "cgroups"
    interval_seconds = 2.0

    def __init__(
        self,
        ranks: Ranks,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ranks = ranks
        self._proc = proc
        self._root = cgroup
        self._clock = clock
        self._members: dict[tuple[str, int], _Membership] = {}

    def read(self) -> Reading:
        """Return one sample per group, by path; none if no rank lives or recently lived here."""
        now = self._clock()
        for process, rank in self._ranks().items():
            with contextlib.suppress(OSError):  # the rank has just ended
                with process.opened(self._proc) as folder:
                    paths = controller_paths(text_of(folder / "cgroup"))
                if paths:
                    self._members[rank] = _Membership(now, cgroup_path(paths), paths)
        self._members = {
            rank: member for rank, member in self._members.items() if now - member.time <= REMEMBER_SECONDS
        }
        ranks_by_path: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        controllers: dict[str, dict[str, str]] = {}  # of each group, by its path
        for rank, member in self._members.items():
            path = member.path
            # The group of a dead rank may be gone, too.
            if member.time == now or _levels(self._root / "memory", path) or _levels(v2_root(self._root), path):
                ranks_by_path[path].append(rank)
                controllers[path] = member.controllers
        samples: list[CgroupSample] = []
        dropped: list[str] = []
        for path, ranks in take_first(MAX_CGROUPS, sorted(ranks_by_path.items()), "control groups", dropped):
            memory, cpu = self._memory(controllers[path]), self._cpu(controllers[path])
            if not memory or not cpu:
                dropped.append(f"{path}: it is not under {self._root}: run the agent in the host's cgroup namespace")
            samples.append(cgroup_sample(path, tuple(sorted(ranks)), memory, cpu))
        return Reading(tuple(samples), tuple(dropped))

    def _memory(self, paths: dict[str, str]) -> list[CgroupMemory]:
        if "memory" in paths:
            return [_memory_v1(folder) for folder in _levels(self._root / "memory", paths["memory"])]
        return [_memory_v2(folder) for folder in _levels(v2_root(self._root), paths[V2])]

    def _cpu(self, paths: dict[str, str]) -> list[CgroupCpu]:
        if "cpu" in paths:
            return [_cpu_v1(folder) for folder in _levels(self._root / "cpu", paths["cpu"])]
        return [_cpu_v2(folder) for folder in _levels(v2_root(self._root), paths[V2])]


def v2_root(root: Path) -> Path:
    """Return the folder of v2: all of /sys/fs/cgroup, or a part of it on a hybrid host."""
    return root if (root / "cgroup.controllers").exists() else root / "unified"


def controller_paths(text: str) -> dict[str, str]:
    """Return the path by controller from /proc/<pid>/cgroup; empty without v2 or both controllers of v1."""
    lines = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    paths = {controller: path for _, controllers, path in lines for controller in controllers.split(",")}
    return paths if V2 in paths or {"memory", "cpu"} <= paths.keys() else {}


def cgroup_path(paths: dict[str, str]) -> str:
    """Return the path that names the group: under v1 the deepest of the paths that a process has per controller."""
    candidates = (paths.get(controller, paths.get(V2, "/")) for controller in ("memory", "cpu"))
    return max(candidates, key=lambda path: len(PurePosixPath(path).parts))


def cgroup_sample(
    path: str, ranks: tuple[tuple[str, int], ...], memory: Sequence[CgroupMemory], cpu: Sequence[CgroupCpu]
) -> CgroupSample:
    """Return the sample of a group. `memory` and `cpu` have its levels, the group itself first, the root last."""
    accounted = [level for level in memory if level.used is not None]
    binding = min(accounted, key=lambda level: inf if level.limit is None else level.limit, default=None)
    throttled = [level.throttled_seconds for level in cpu if level.throttled_seconds is not None]
    return CgroupSample(
        path=path,
        ranks=ranks,
        memory_used_bytes=binding.used if binding else None,
        memory_limit_bytes=binding.limit if binding else None,
        cpu_limit_cores=min((level.cores for level in cpu if level.cores is not None), default=None),
        throttled_seconds=sum(throttled) if throttled else None,
        oom_kills=next((level.oom_kills for level in memory if level.oom_kills is not None), None),
    )


def _levels(root: Path, path: str) -> list[Path]:
    """Return the group's folder and those above it, up to the root; empty if it is not in this cgroup namespace."""
    parts = PurePosixPath(path).parts[1:]
    if ".." in parts or not root.joinpath(*parts).exists():
        return []
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _memory_v2(folder: Path) -> CgroupMemory:
    return CgroupMemory(
        used=_number(folder / "memory.current"),
        limit=_number(folder / "memory.max"),  # the text `max` is no number: no limit
        oom_kills=number_after("oom_kill", text_of(folder / "memory.events")),
    )


def _memory_v1(folder: Path) -> CgroupMemory:
    limit = _number(folder / "memory.limit_in_bytes")
    return CgroupMemory(
        used=_number(folder / "memory.usage_in_bytes"),
        limit=limit if limit is not None and limit < V1_UNLIMITED else None,
        oom_kills=number_after("oom_kill", text_of(folder / "memory.oom_control")),
    )


def _cpu_v2(folder: Path) -> CgroupCpu:
    limit = re.match(r"(\d+) (\d+)", text_of(folder / "cpu.max"))  # "max 100000": no limit
    throttled_us = number_after("throttled_usec", text_of(folder / "cpu.stat"))
    cores = int(limit[1]) / int(limit[2]) if limit else None
    return CgroupCpu(cores, None if throttled_us is None else throttled_us / 1e6)


def _cpu_v1(folder: Path) -> CgroupCpu:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    throttled_ns = number_after("throttled_time", text_of(folder / "cpu.stat"))
    cores = quota / period if quota is not None and period and quota > 0 else None  # -1: no limit
    return CgroupCpu(cores, None if throttled_ns is None else throttled_ns / 1e9)


def _number(path: Path) -> int | None:
    try:
        return int(text_of(path))
    except ValueError:
        return None
