"""Everything that a check of the kit may use: the machine, directories, jobs that end in time, and their boxes."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    """The time of the command is over, so that a check could not run to its end."""


@dataclass(frozen=True)
class BoxContent:
    """The content of the box of a rank that has ended."""

    identity: Identity
    last_boundary: Row  # has the totals of the rank
    steps: Steps
    sequences: dict[str, int]  # the number of the last collective, by process group

    @property
    def num_steps(self) -> int:
        """The number of steps that the rank has counted."""
        return self.last_boundary[layout.STEPS]

    @property
    def num_dropped(self) -> int:
        """The number of records that the probe dropped."""
        return self.last_boundary[layout.DROPPED]

    @property
    def overhead_seconds(self) -> float:
        """The overhead of the probe, by its own measurement."""
        return self.last_boundary[layout.OVERHEAD] * NS

    @property
    def memory(self) -> Row:
        """The bytes that the allocator has allocated and reserved, and the peak; UNKNOWN if it was never read."""
        return self.last_boundary[layout.MEMORY : layout.MEMORY + layout.NUM_MEMORY]


@dataclass(frozen=True)
class FinishedJob:
    """A job that has ended well, and its files."""

    folder: Path
    num_ranks: int

    def records(self, kind: type[T]) -> list[T]:
        """Return what the ranks wrote, rank 0 first."""
        return [read(self.folder, rank, kind) for rank in range(self.num_ranks)]

    def boxes(self) -> list[BoxContent]:
        """Return the boxes of the ranks, rank 0 first."""
        return [read_box(box_path(self.folder / BOXES, JOB_ID, 0, rank)) for rank in range(self.num_ranks)]


@dataclass(frozen=True)
class Kit:
    """The machine, the directory and the deadline of the command."""

    machine: Machine
    folder: Path
    deadline: float  # on the monotonic clock

    def seconds_left(self, limit: float) -> float:
        """Return how long a part of a check may take: `limit`, or the rest of the command's time. Raises OutOfTime."""
        if self.is_over:
            raise OutOfTime(OUT_OF_TIME)
        return min(limit, self.deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True if the time of the command is over."""
        return time.monotonic() >= self.deadline

    def new_folder(self) -> Path:
        """Make a directory for one job."""
        return Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))

    def run(self, setting: Setting, name: str, *arguments: str, seconds: float) -> FinishedJob:
        """Run one of the kit's jobs in a setting until it ends. Raises JobFailed and OutOfTime."""
        folder = self.new_folder()
        seconds = self.seconds_left(seconds)
        run_job(folder, JOBS, name, setting.key, *arguments, seconds=seconds, ranks=setting.num_ranks)
        return FinishedJob(folder, setting.num_ranks)


@dataclass(frozen=True)
class Check:
    """A check: its name on the command line, its heading in the report, its settings, and how it runs in one."""

    name: str
    title: str
    settings: tuple[Setting, ...]
    run: Callable[[Kit, Setting], Iterable[Result]]


def read_box(path: Path) -> BoxContent:
    """Read the box of a rank that has ended. Raises BoxError and OSError."""
    reader = BoxReader(path)
    try:
        by_slot = reader.sequences()
        sequences = {name: by_slot[slot] for slot, (name, _) in reader.groups().items() if slot in by_slot}
        identity = reader.identity()
        steps = reader.steps_ended(-1, sys.maxsize, layout.RING_CAPACITY)
        return BoxContent(identity, reader.last_boundary(), whole_steps({identity.run_uid: steps}), sequences)
    finally:
        reader.close()
