"""Look up processes of this host: their state, their ancestors, and when their newest child started.

Layout: proc(5). To find the children of a process, all processes are read, because not every kernel lists children
(CONFIG_PROC_CHILDREN). That takes up to some tens of milliseconds on a large node. It is done at most once a second,
and only while the launcher of a dead rank lives, or while the only rank of a job is past its lease.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from zmon.agent.sources.freezer import is_frozen
from zmon.agent.sources.reading import text_of
from zmon.process import ProcessId, ProcessKey, ProcessStat, process_id, process_stat
from zmon.scaling.peaks import processors_name

_MAX_AGE_SECONDS = 1.0
_MAX_GENERATIONS = 16  # ancestors of a rank that are looked up: launchers, shells and fork servers
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ProcessTable:
    """The contents of one /proc: its processes, and the name of the processors."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.monotonic,
        cgroup: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._proc, self._clock, self._cgroup = proc, clock, cgroup
        self._newest_child_starts: dict[int, int] = {}  # in clock ticks after boot, by pid of the parent
        self._read_at: float | None = None

    def stat(self, pid: int) -> ProcessStat | None:
        """Return the state of the process that has this pid now; None if there is none or it is not visible here."""
        return process_stat(pid, self._proc)

    def identify(self, pid: int) -> ProcessId | None:
        """Return the process that has this pid now; None if there is none or it is hidden."""
        return process_id(pid, self._proc)

    def stat_of(self, process: ProcessId | ProcessKey) -> ProcessStat | None:
        """Return the state of this process; None if it has ended, even if another process has its pid now."""
        stat = self.stat(process.pid)
        return stat if stat is not None and stat.start_ticks == process.start_ticks else None

    def ancestors(self, process: ProcessId) -> dict[ProcessKey, int]:
        """Return the ancestors of a process.

        The value is the start of the ancestor's child on the line down to the process, in clock ticks after boot.
        """
        result: dict[ProcessKey, int] = {}
        child = self.stat_of(process)
        while child is not None and child.parent > 1 and len(result) < _MAX_GENERATIONS:
            parent = self.stat(child.parent)
            if parent is not None:
                result[ProcessKey(child.parent, parent.start_ticks)] = child.start_ticks
            child = parent
        return result

    def is_frozen(self, pid: int, state: str) -> bool:
        """Return True if a control group holds this process, which is in this state."""
        return is_frozen(self._proc / str(pid), state, self._cgroup)

    @cached_property
    def processors(self) -> str:
        """The device name of this host's processors; empty if /proc/cpuinfo has none."""
        return processors_name(text_of(self._proc / "cpuinfo"))

    def newest_child_start(self, parent: int) -> int | None:
        """Return when the newest child of this process started, in clock ticks after boot; None if it has no child."""
        now = self._clock()
        if self._read_at is None or now - self._read_at >= _MAX_AGE_SECONDS:
            self._newest_child_starts, self._read_at = self._read_newest_child_starts(), now
        return self._newest_child_starts.get(parent)

    def _read_newest_child_starts(self) -> dict[int, int]:
        starts: dict[int, int] = {}
        for name in (entry.name for entry in self._proc.iterdir()):
            if name.isdecimal() and (stat := self.stat(int(name))) is not None:
                starts[stat.parent] = max(stat.start_ticks, starts.get(stat.parent, 0))
        return starts


def boot_ticks() -> int:
    """Return the clock ticks since boot, the clock of `ProcessStat.start_ticks`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)


def ticks_to_ns(ticks: int) -> int:
    """Convert clock ticks to nanoseconds."""
    return ticks * 1_000_000_000 // _TICKS_PER_SECOND
