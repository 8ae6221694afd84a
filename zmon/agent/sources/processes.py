"""Read the run-queue delay and the storage reads of each rank.

The delay is the second number of /proc/<pid>/schedstat, the nanoseconds on a run queue (Linux
Documentation/scheduler/sched-stats.rst). This file counts the main thread only. The main thread usually runs the
training loop, so the step is longer by its delay. The delays of all threads together would be several times as long
where a pool waits at once, and the delays of loader threads do not make a step longer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container
from pathlib import Path
from typing import NamedTuple

from zmon.agent.sources.reading import Ranks, Reading, take_first, text_of
from zmon.agent.sources.storage_reads import StorageReads
from zmon.process import ProcessId
from zmon.schema.host import ProcessSample

MAX_PROCESSES = 256  # ranks of one host; far above one per GPU, and a limit of the time and the size of a sample
# The scheduler moves a program that is not bound to a core to a free core within about a second. A longer delay is
# contention.
WINDOW_SECONDS = 6.0


class ProcessSource:
    """The processes of the ranks on this host."""

    name = "processes"
    field = "processes"
    interval_seconds = 1.0

    def __init__(self, ranks: Ranks, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> None:
        self._ranks = ranks
        self._proc = proc
        self._reads = StorageReads(proc)
        self._delays = RunDelays(clock)

    def read(self) -> Reading:
        """Return one sample per rank, by job and rank, without ranks that have just ended."""
        samples: list[ProcessSample] = []
        dropped: list[str] = []
        counted_ended: set[str] = set()  # the jobs whose ended ranks are in the sample of a living rank
        by_rank = sorted((rank, process) for process, rank in self._ranks().items())
        jobs = {process: job_id for (job_id, _), process in by_rank}
        self._reads.retain(jobs)
        self._delays.retain(jobs)
        for (job_id, rank), process in take_first(MAX_PROCESSES, by_rank, "ranks", dropped):
            try:
                with process.opened(self._proc) as folder:
                    storage_bytes = self._reads.bytes_of(process, job_id, folder)
                    delay_ratio = self._delays.ratio_of(process, folder)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                dropped.append(f"rank {rank} of {job_id}: cannot read {self._proc}/{process.pid}: {error.strerror}")
                continue
            if storage_bytes is not None and job_id not in counted_ended:  # so that the sum over the job never falls
                storage_bytes += self._reads.bytes_of_ended_ranks(job_id)
                counted_ended.add(job_id)
            samples.append(ProcessSample(job_id, rank, process.pid, delay_ratio, storage_bytes))
        return Reading(tuple(samples), tuple(dropped))


class _Delay(NamedTuple):
    """The seconds for which a thread had waited on a run queue at one time."""

    time: float
    seconds: float


class RunDelays:
    """The ratio of recent time for which each rank of this host waited on a run queue."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._samples: dict[ProcessId, deque[_Delay]] = {}

    def retain(self, processes: Container[ProcessId]) -> None:
        """Forget all processes except these."""
        self._samples = {process: samples for process, samples in self._samples.items() if process in processes}

    def ratio_of(self, process: ProcessId, folder: Path) -> float | None:
        """Return the ratio of the last WINDOW_SECONDS for which the main thread waited on a run queue, 0 to 1.

        None if the kernel does not count the delay, or if the first sample is more recent. `folder` is the opened
        folder of the process in /proc.
        """
        seconds = run_delay_seconds(text_of(folder / "schedstat"))
        now = self._clock()
        samples = self._samples.setdefault(process, deque())
        if seconds is None:
            samples.clear()
            return None
        samples.append(_Delay(now, seconds))
        while len(samples) > 1 and now - samples[1].time >= WINDOW_SECONDS:
            samples.popleft()
        first = samples[0]
        if now - first.time < WINDOW_SECONDS:
            return None
        return min((seconds - first.seconds) / (now - first.time), 1.0)


def run_delay_seconds(schedstat: str) -> float | None:
    """Return the seconds for which a thread has waited for a processor; None if the kernel does not count them.

    A kernel without CONFIG_SCHED_INFO does not have the file. A kernel that has it switched off writes `0 0 0`. The
    third number counts how often the thread got a processor, and is not 0 for a thread that has run.
    """
    numbers = schedstat.split()
    if len(numbers) < 3 or not all(map(str.isdecimal, numbers)) or not int(numbers[2]):
        return None
    return int(numbers[1]) * 1e-9
