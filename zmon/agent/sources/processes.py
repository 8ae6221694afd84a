"""Read the share of the last seconds for which each rank waited for a processor, and what it reads from storage.

The wait is the second number of /proc/<pid>/schedstat, the nanoseconds on a run queue (Linux
Documentation/scheduler/sched-stats.rst). That file counts the main thread only, which is what is needed: it usually
runs the training loop, so its waits delay the step by as much. The waits of all threads together would be several
times as long where a pool waits at once, and those of loader threads delay no step.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container
from pathlib import Path

from zmon.agent.sources.reading import Ranks, Reading, first, text_of
from zmon.agent.sources.storage_reads import StorageReads
from zmon.process import ProcessId
from zmon.schema.host import ProcessSample

MAX_PROCESSES = 256
# Programs that are bound to no core move to a free one within about a second. What lasts longer is contention.
WINDOW_SECONDS = 6.0


class ProcessSource:
    """The processes of the ranks on this host."""

    name = "processes"
    field = "processes"
    interval_seconds = 1.0

    def __init__(self, ranks: Ranks, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> None:
        self._ranks = ranks
        self._proc = proc
        self._reads, self._delays = StorageReads(proc), RunDelays(clock)

    def read(self) -> Reading:
        """Return one sample per rank, by job and rank, without ranks that have just ended."""
        samples: list[ProcessSample] = []
        dropped: list[str] = []
        by_rank = sorted((rank, process) for process, rank in self._ranks().items())
        jobs = {process: job_id for (job_id, _), process in by_rank}
        self._reads.retain(jobs)
        self._delays.retain(jobs)
        for (job_id, rank), process in first(MAX_PROCESSES, by_rank, "ranks", dropped):
            try:
                with process.opened(self._proc) as folder:
                    storage_bytes = self._reads.of(process, job_id, folder)
                    delay_ratio = self._delays.ratio_of(process, folder)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                dropped.append(f"rank {rank} of {job_id}: cannot read {self._proc}/{process.pid}: {error.strerror}")
                continue
            if storage_bytes is not None and not (samples and samples[-1].job_id == job_id):
                storage_bytes += self._reads.of_ended_ranks(job_id)
            samples.append(ProcessSample(job_id, rank, process.pid, delay_ratio, storage_bytes))
        return Reading(tuple(samples), tuple(dropped))


class RunDelays:
    """The waits of the ranks of this host."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[ProcessId, deque[tuple[float, float]]] = {}  # time of the look, seconds waited so far

    def retain(self, processes: Container[ProcessId]) -> None:
        """Forget the processes that are not among these."""
        self._seconds = {process: looks for process, looks in self._seconds.items() if process in processes}

    def ratio_of(self, process: ProcessId, folder: Path) -> float | None:
        """Return the share of the last seconds; None if the kernel does not count it, or while too few are known.

        `folder`: the folder of the process, opened.
        """
        seconds, now = run_delay_seconds(text_of(folder / "schedstat")), self._clock()
        looks = self._seconds.setdefault(process, deque())
        if seconds is None:
            looks.clear()
            return None
        looks.append((now, seconds))
        while len(looks) > 1 and now - looks[1][0] >= WINDOW_SECONDS:
            looks.popleft()
        then, before = looks[0]
        return min((seconds - before) / (now - then), 1.0) if now - then >= WINDOW_SECONDS else None


def run_delay_seconds(schedstat: str) -> float | None:
    """Return the time for which a thread waited for a processor; None if the kernel does not count it.

    Without CONFIG_SCHED_INFO there is no such file; a kernel that has it switched off writes `0 0 0`. The third number
    is how often the thread got a processor, which is not 0 for one that has run.
    """
    numbers = schedstat.split()
    if len(numbers) < 3 or not all(map(str.isdecimal, numbers)) or not int(numbers[2]):
        return None
    return int(numbers[1]) * 1e-9
