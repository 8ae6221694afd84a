"""The bytes that each rank and its children have read from storage: proc(5), `read_bytes` of /proc/<pid>/io.

The children are loader workers, also those that a fork server has started. The kernel counts a read when a process
submits it to the storage layer, so pages from the cache are not included. What a worker reads between the last look and
its end is lost; the sum never falls. A process of another user needs CAP_SYS_PTRACE.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from zmon.process import children

_MAX_CHILDREN = 1024  # of one rank


@dataclass
class _Reads:
    """The reads of one rank so far."""

    ended: int = 0  # by children that have ended
    living: dict[int, int] = field(default_factory=dict)  # pid → bytes


class StorageReads:
    """The storage reads of the ranks of this host."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._ranks: dict[int, _Reads] = {}  # by pid

    def retain(self, pids: Set[int]) -> None:
        """Forget the ranks that are not among these."""
        self._ranks = {pid: reads for pid, reads in self._ranks.items() if pid in pids}

    def of(self, pid: int) -> int | None:
        """Return the bytes that a rank and its children have read; None if its own count may not be read."""
        rank_bytes = self._read_bytes(pid)
        if rank_bytes is None:
            return None
        reads = self._ranks.setdefault(pid, _Reads())
        living = {pid: rank_bytes}
        for child in children(pid, self._proc):
            if len(living) <= _MAX_CHILDREN and (count := self._read_bytes(child)) is not None:
                living[child] = count
        for child, count in reads.living.items():
            if living.get(child, -1) < count:  # it has ended; another process may have its number by now
                reads.ended += count
        reads.living = living
        return reads.ended + sum(living.values())

    def _read_bytes(self, pid: int) -> int | None:
        try:
            text = (self._proc / str(pid) / "io").read_text()
        except OSError:
            return None
        line = re.search(r"^read_bytes: (\d+)$", text, re.M)
        return int(line[1]) if line else None
