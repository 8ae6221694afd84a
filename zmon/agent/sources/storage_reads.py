"""The bytes that each rank and its children have read from storage: proc(5), `read_bytes` of /proc/<pid>/io.

The children are loader workers, including the workers of a fork server. The kernel counts a read when a process
submits it to the storage layer, so pages from the cache are not included. The bytes that a worker reads between the
last sample and its end are lost. Reading a process of another user needs CAP_SYS_PTRACE.

Bytes count from the first sample of a rank. An agent that restarts does not know the bytes of children that have ended,
so it begins at 0. Prometheus takes this fall as a restart of the counter. While an agent runs, the sum over the ranks
of a job never falls: the first rank with known bytes also counts the bytes of the ranks that have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from zmon.agent.sources.reading import number_after, text_of
from zmon.process import ProcessId, children

_MAX_CHILDREN = 1024  # children of one rank; far above its loader workers, and a limit of the time of a sample


@dataclass
class _Reads:
    """The bytes that one rank has read so far."""

    job_id: str
    first_sample: int
    ended: int = 0  # bytes of children that have ended
    living: dict[int, int] = field(default_factory=dict)  # pid → bytes

    @property
    def total(self) -> int:
        return self.ended + sum(self.living.values()) - self.first_sample


class StorageReads:
    """The storage reads of the ranks of this host."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._ranks: dict[ProcessId, _Reads] = {}
        self._ended: Counter[str] = Counter()  # bytes of ranks that have ended, by job

    def retain(self, jobs: Mapping[ProcessId, str]) -> None:
        """Forget the ranks whose processes are not among these, and the jobs without a living rank."""
        for process in self._ranks.keys() - jobs.keys():
            ended = self._ranks.pop(process)
            self._ended[ended.job_id] += ended.total
        for job_id in self._ended.keys() - set(jobs.values()):
            del self._ended[job_id]

    def bytes_of_ended_ranks(self, job_id: str) -> int:
        """Return the bytes read by the ranks of a job that have ended; 0 once all its ranks have ended."""
        return self._ended[job_id]

    def bytes_of(self, process: ProcessId, job_id: str, folder: Path) -> int | None:
        """Return the bytes that a rank and its children have read; None if the count of the rank may not be read.

        `folder` is the opened folder of its process in /proc.
        """
        rank_bytes = _read_bytes(folder)
        if rank_bytes is None:
            return None
        living = {process.pid: rank_bytes}
        for child, child_folder, _ in islice(children(process.pid, folder, self._proc), _MAX_CHILDREN):
            if (count := _read_bytes(child_folder)) is not None:
                living[child] = count
        reads = self._ranks.setdefault(process, _Reads(job_id, sum(living.values())))
        for child, count in reads.living.items():
            if living.get(child, -1) < count:  # the child has ended; another process may have its number by now
                reads.ended += count
        reads.living = living
        return reads.total


def _read_bytes(folder: Path) -> int | None:
    return number_after("read_bytes", text_of(folder / "io"))
