"""Read how long each rank's process waits for a processor, and what it reads from storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from zmon.agent.sources.reading import Ranks, Reading, first
from zmon.agent.sources.run_delay import RunDelays
from zmon.agent.sources.storage_reads import StorageReads
from zmon.schema.host import ProcessSample

MAX_PROCESSES = 256


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
