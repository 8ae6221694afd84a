"""Read the state, memory, CPU time and wait channel of each rank's process, and what it reads from storage.

Layout: proc(5). `stat` counts all threads together. Context switches (`status`) and the wait channel are those of the
main thread, which usually runs the training loop. `wchan` is empty while that thread runs, and for a reader who may
not trace the process.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zmon.agent.sources.reading import Ranks, Reading, first, number_after, text_of
from zmon.agent.sources.storage_reads import StorageReads
from zmon.process import parse_stat
from zmon.schema.host import ProcessSample

MAX_PROCESSES = 256


class ProcessSource:
    """The processes of the ranks on this host."""

    name = "processes"
    field = "processes"
    interval_seconds = 1.0

    def __init__(self, ranks: Ranks, proc: Path = Path("/proc")) -> None:
        self._ranks = ranks
        self._proc = proc
        self._reads = StorageReads(proc)

    def read(self) -> Reading:
        """Return one sample per rank, by job and rank, without ranks that have just ended."""
        samples: list[ProcessSample] = []
        dropped: list[str] = []
        by_rank = sorted((rank, pid) for pid, rank in self._ranks().items())
        self._reads.retain({pid: job_id for (job_id, _), pid in by_rank})
        for (job_id, rank), pid in first(MAX_PROCESSES, by_rank, "ranks", dropped):
            folder = self._proc / str(pid)
            try:
                stat = (folder / "stat").read_bytes()
                sample = process_sample(job_id, rank, pid, stat, text_of(folder / "status"), text_of(folder / "wchan"))
                storage_bytes = self._reads.of(pid, job_id)
                if storage_bytes is not None and not (samples and samples[-1].job_id == job_id):
                    storage_bytes += self._reads.of_ended_ranks(job_id)
                samples.append(replace(sample, storage_read_bytes=storage_bytes))
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                dropped.append(f"rank {rank} of {job_id}: cannot read {folder}/stat: {error.strerror}")
            except (ValueError, IndexError):
                dropped.append(f"rank {rank} of {job_id}: {folder}/stat does not have the format of proc(5)")
        return Reading(tuple(samples), tuple(dropped))


def process_sample(job_id: str, rank: int, pid: int, stat: bytes, status: str, wchan: str) -> ProcessSample:
    """Parse the files of a process; only `stat` is required. Raises ValueError or IndexError for another format."""
    process = parse_stat(stat)
    return ProcessSample(
        job_id=job_id,
        rank=rank,
        pid=pid,
        state=process.state,
        resident_bytes=process.resident_bytes,
        num_threads=process.num_threads,
        cpu_seconds=process.cpu_seconds,
        voluntary_switches=number_after("voluntary_ctxt_switches", status),
        involuntary_switches=number_after("nonvoluntary_ctxt_switches", status),
        major_faults=process.major_faults,
        wait_channel=wchan if wchan not in ("", "0") else None,
    )
