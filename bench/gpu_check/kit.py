"""Everything that a check of the kit may use: the machine, directories, jobs that end in time, and their boxes."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bench.gpu_check.machine import Machine
from bench.gpu_check.records import read
from bench.gpu_check.result import Result
from bench.gpu_check.settings import Setting
from bench.ranks import BOXES, JOB_ID, run_job
from zmon.box import box_path, layout
from zmon.box.identity import Identity
from zmon.box.reader import BoxReader
from zmon.box.ring import Row
from zmon.box.steps import whole_steps
from zmon.schema.measures import NS
from zmon.schema.steps import Steps

JOBS = "bench.gpu_check.jobs"
OUT_OF_TIME = "the time of the command was over"
T = TypeVar("T")


class OutOfTime(Exception):
    """The time of the command is over, so that a check could not run."""


@dataclass(frozen=True)
class RankRecord:
    """The content of the box of a rank that has ended."""

    identity: Identity
    last: Row  # the last boundary, which has the totals
    steps: Steps
    sequences: dict[str, int]  # collectives by process group

    @property
    def num_steps(self) -> int:
        """The number of steps that the rank has counted."""
        return self.last[layout.STEPS]

    @property
    def dropped_records(self) -> int:
        """The number of records that are lost."""
        return self.last[layout.DROPPED]

    @property
    def overhead_seconds(self) -> float:
        """The overhead of the probe, as it says."""
        return self.last[layout.OVERHEAD] * NS

    @property
    def memory(self) -> Row:
        """The bytes that the allocator has allocated and reserved, and the peak; unknown if it was never asked."""
        return self.last[layout.MEMORY : layout.MEMORY + layout.NUM_MEMORY]


@dataclass(frozen=True)
class FinishedJob:
    """A job that has ended well, and its files."""

    folder: Path
    ranks: int

    def records(self, kind: type[T]) -> list[T]:
        """Return what the ranks wrote, rank 0 first."""
        return [read(self.folder, rank, kind) for rank in range(self.ranks)]

    def boxes(self) -> list[RankRecord]:
        """Return the boxes of the ranks, rank 0 first."""
        return [read_box(box_path(self.folder / BOXES, JOB_ID, 0, rank)) for rank in range(self.ranks)]


@dataclass(frozen=True)
class Kit:
    """The machine, the directory of the command, and the time on the monotonic clock at which it must be over."""

    machine: Machine
    folder: Path
    deadline: float
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def seconds(self, limit: float) -> float:
        """Return the seconds for something that should take at most `limit`. Raises OutOfTime."""
        if self.is_over:
            raise OutOfTime(OUT_OF_TIME)
        return min(limit, self.deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True if the time of the command is over."""
        return time.monotonic() >= self.deadline

    def new_folder(self) -> Path:
        """Make a directory of its own for a job."""
        folder = self.folder / str(next(self._numbers))
        folder.mkdir()
        return folder

    def run(self, setting: Setting, name: str, *arguments: str, seconds: float) -> FinishedJob:
        """Run one of the kit's jobs in a setting until it ends. Raises JobFailed and OutOfTime."""
        folder = self.new_folder()
        seconds = self.seconds(seconds)
        run_job(folder, f"{JOBS}.{name}", setting.key, *arguments, seconds=seconds, ranks=setting.ranks)
        return FinishedJob(folder, setting.ranks)


@dataclass(frozen=True)
class Check:
    """A check: its name on the command line, its heading in the report, its settings, and how it runs in one."""

    name: str
    title: str
    settings: tuple[Setting, ...]
    run: Callable[[Kit, Setting], Iterable[Result]]


def read_box(path: Path) -> RankRecord:
    """Read the box of a rank that has ended. Raises BoxError and OSError."""
    reader = BoxReader(path)
    try:
        names = reader.groups()
        counts = reader.sequences()
        sequences = {name: counts[number] for number, (name, _) in names.items() if number in counts}
        identity = reader.identity()
        ends = reader.steps_ended(-1, sys.maxsize, layout.RING_CAPACITY)
        return RankRecord(identity, reader.last_boundary(), whole_steps({identity.run_uid: ends}), sequences)
    finally:
        reader.close()
