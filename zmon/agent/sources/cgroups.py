"""How much memory and processor time may the ranks take, and did they run into it?

Layout: Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1/memory.rst and scheduler/sched-bwc.rst for v1; a hybrid
host has some controllers of v1 and the rest of v2 under `unified`. A limit binds from any level above (a pod's, a
job's): the smallest one is told, with the memory used at that same level, page cache included, so that the two can be
held against each other. Throttling is that of all levels together, OOM kills those of the group's own processes.

The agent sees a group only under its own /sys/fs/cgroup: of ranks in another container, it has to run in the host's
cgroup namespace. What it cannot see is unknown, and said.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from zmon.agent.sources.reading import Ranks, Reading
from zmon.schema.host import CgroupSample

MAX_CGROUPS = 64
KEPT_SECONDS = 60.0  # a dead rank in its group
V2 = ""  # /proc/<pid>/cgroup names no controllers on the line of v2
V1_UNLIMITED = 1 << 62  # v1 writes "no limit" as the largest number of whole pages


class _Seen(NamedTuple):
    """A rank in its group, when last looked at."""

    time: float
    path: str
    controllers: dict[str, str]


class CgroupMemory(NamedTuple):
    """What the memory controller tells at one level."""

    used: int | None
    limit: int | None
    oom_kills: int | None


class Cpu(NamedTuple):
    """What the cpu controller tells at one level."""

    cores: float | None
    throttled_seconds: float | None


class CgroupSource:
    """The control groups that the ranks of this host live in, or died in a moment ago: of want of memory, maybe."""

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
        self._seen: dict[tuple[str, int], _Seen] = {}

    def read(self) -> Reading:
        """One sample per group, by path; none while no rank lives here, or lately did."""
        now = self._clock()
        for pid, rank in self._ranks().items():
            paths = controller_paths(_text(self._proc / str(pid) / "cgroup"))
            if paths:  # else the rank has ended meanwhile
                self._seen[rank] = _Seen(now, cgroup_path(paths), paths)
        self._seen = {rank: seen for rank, seen in self._seen.items() if now - seen.time <= KEPT_SECONDS}
        members: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        controllers: dict[str, dict[str, str]] = {}
        for rank, seen in self._seen.items():
            if seen.time == now or _levels(self._root / "memory", seen.path) or _levels(self._v2(), seen.path):
                members[seen.path].append(rank)
                controllers[seen.path] = seen.controllers
        samples = []
        dropped = []
        for path, ranks in sorted(members.items())[:MAX_CGROUPS]:
            memory, cpu = self._memory(controllers[path]), self._cpu(controllers[path])
            if not memory or not cpu:
                dropped.append(f"{path}: not under {self._root}: run the agent in the host's cgroup namespace")
            samples.append(cgroup_sample(path, tuple(sorted(ranks)), memory, cpu))
        if len(members) > MAX_CGROUPS:
            dropped.append(f"{len(members) - MAX_CGROUPS} control groups more than {MAX_CGROUPS}")
        return Reading(tuple(samples), tuple(dropped))

    def _memory(self, paths: dict[str, str]) -> list[CgroupMemory]:
        if "memory" in paths:
            return [_memory_v1(folder) for folder in _levels(self._root / "memory", paths["memory"])]
        return [_memory_v2(folder) for folder in _levels(self._v2(), paths[V2])]

    def _cpu(self, paths: dict[str, str]) -> list[Cpu]:
        if "cpu" in paths:
            return [_cpu_v1(folder) for folder in _levels(self._root / "cpu", paths["cpu"])]
        return [_cpu_v2(folder) for folder in _levels(self._v2(), paths[V2])]

    def _v2(self) -> Path:
        return self._root if (self._root / "cgroup.controllers").exists() else self._root / "unified"


def controller_paths(text: str) -> dict[str, str]:
    """Path by controller, of a /proc/<pid>/cgroup that has at least v2 or both controllers of v1; else nothing."""
    lines = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    paths = {controller: path for _, controllers, path in lines for controller in controllers.split(",")}
    return paths if V2 in paths or {"memory", "cpu"} <= paths.keys() else {}


def cgroup_path(paths: dict[str, str]) -> str:
    """The one path to know the group by: under v1 a process may have one per controller, and the deepest tells most."""
    told = (paths.get(controller, paths.get(V2, "/")) for controller in ("memory", "cpu"))
    return max(told, key=lambda path: len(PurePosixPath(path).parts))


def cgroup_sample(
    path: str, ranks: tuple[tuple[str, int], ...], memory: Sequence[CgroupMemory], cpu: Sequence[Cpu]
) -> CgroupSample:
    """A group by its levels, itself first, the root last."""
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
    """The group's folder and those above it, up to the root; none where it cannot be seen from here."""
    parts = PurePosixPath(path).parts[1:]
    if ".." in parts or not root.joinpath(*parts).exists():
        return []
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _memory_v2(folder: Path) -> CgroupMemory:
    used, limit = _number(folder / "memory.current"), _number(folder / "memory.max")  # of no limit: max
    return CgroupMemory(used, limit, _counter(folder / "memory.events", "oom_kill"))


def _memory_v1(folder: Path) -> CgroupMemory:
    used, limit = _number(folder / "memory.usage_in_bytes"), _number(folder / "memory.limit_in_bytes")
    bound = limit if limit is not None and limit < V1_UNLIMITED else None
    return CgroupMemory(used, bound, _counter(folder / "memory.oom_control", "oom_kill"))


def _cpu_v2(folder: Path) -> Cpu:
    allowed = re.match(r"(\d+) (\d+)", _text(folder / "cpu.max"))  # "max 100000" of no limit
    throttled = _counter(folder / "cpu.stat", "throttled_usec")
    return Cpu(
        int(allowed[1]) / int(allowed[2]) if allowed else None,
        throttled / 1e6 if throttled is not None else None,
    )


def _cpu_v1(folder: Path) -> Cpu:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    throttled = _counter(folder / "cpu.stat", "throttled_time")
    return Cpu(
        quota / period if quota is not None and period and quota > 0 else None,  # -1 of no limit
        throttled / 1e9 if throttled is not None else None,
    )


def _counter(path: Path, name: str) -> int | None:
    line = re.search(rf"^{name} (\d+)$", _text(path), re.M)
    return int(line[1]) if line else None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _text(path: Path) -> str:
    """Content of a file; nothing where it cannot be read: a controller may be switched off, a process gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
