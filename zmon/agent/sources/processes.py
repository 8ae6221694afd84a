"""What is the process of each rank doing: running, sleeping, where, and how much memory and time did it take?

Layout: proc(5). `stat` counts for all threads together. Context switches (`status`) and the
wait channel are the main thread's alone: the one that runs the training loop, as a rule. `wchan` has no answer while
that thread runs, and none for a reader who may not trace the process.
"""

from __future__ import annotations

import re
from pathlib import Path

from zmon.agent.sources.reading import Ranks, Reading
from zmon.process import parse_stat
from zmon.schema.host import ProcessSample

MAX_PROCESSES = 256


class ProcessSource:
    """The processes of the ranks that live here."""

    name = "processes"
    field = "processes"
    interval_seconds = 1.0

    def __init__(self, ranks: Ranks, proc: Path = Path("/proc")) -> None:
        self._ranks = ranks
        self._proc = proc

    def read(self) -> Reading:
        """One sample per rank, by job and rank. One that has ended meanwhile is simply not there."""
        samples: list[ProcessSample] = []
        dropped: list[str] = []
        by_rank = sorted((rank, pid) for pid, rank in self._ranks().items())
        for (job_id, rank), pid in by_rank[:MAX_PROCESSES]:
            folder = self._proc / str(pid)
            try:
                stat = (folder / "stat").read_bytes()
                samples.append(
                    process_sample(job_id, rank, pid, stat, _text(folder / "status"), _text(folder / "wchan"))
                )
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                dropped.append(f"rank {rank} of {job_id}: cannot read {folder}/stat: {error.strerror}")
            except (ValueError, IndexError):
                dropped.append(f"rank {rank} of {job_id}: {folder}/stat is not as proc(5) says")
        if len(by_rank) > MAX_PROCESSES:
            dropped.append(f"{len(by_rank) - MAX_PROCESSES} ranks more than {MAX_PROCESSES}")
        return Reading(tuple(samples), tuple(dropped))


def process_sample(job_id: str, rank: int, pid: int, stat: bytes, status: bytes, wchan: bytes) -> ProcessSample:
    """A process by its files. Raises ValueError or IndexError where `stat` is odd; the others may be empty."""
    process = parse_stat(stat)
    return ProcessSample(
        job_id=job_id,
        rank=rank,
        pid=pid,
        state=process.state,
        resident_bytes=process.resident_bytes,
        num_threads=process.num_threads,
        cpu_seconds=process.cpu_seconds,
        voluntary_switches=_switches(status, b"voluntary"),
        involuntary_switches=_switches(status, b"nonvoluntary"),
        major_faults=process.major_faults,
        wait_channel=wchan.decode("ascii", "replace") if wchan not in (b"", b"0") else None,
    )


def _switches(status: bytes, kind: bytes) -> int | None:
    line = re.search(rb"^%s_ctxt_switches:\s*(\d+)" % kind, status, re.M)
    return int(line[1]) if line else None


def _text(path: Path) -> bytes:
    """Content of a file; nothing where it may not be read, or is gone."""
    try:
        return path.read_bytes().strip()
    except OSError:
        return b""
