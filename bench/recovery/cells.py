"""The cells of the matrix: fault, job, ranks and steps, as drills that an act or a restart by torchrun mends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from typing import NamedTuple

from lab.drills.draw import Draw
from lab.drills.drill import Drill, Fault, Injection, Scene
from lab.drills.matrix import ALL
from lab.faults import signals
from lab.faults.sabotage import ordered
from lab.jobs.orders import make_hold, release
from lab.stage import JobKind

MAX_RESTARTS = 3
RANKS = (2, 4)
STEP_SECONDS = (0.02, 0.25)


class JobOfCells(NamedTuple):
    """A job of the matrix."""

    kind: JobKind
    # Its ranks handle SIGTERM in Python. A rank in a collective runs no handler, so torchrun waits 30 s and kills it.
    handles_term: bool = False


JOBS: Mapping[str, JobOfCells] = {
    "trainer": JobOfCells("trainer"),
    "ddp": JobOfCells("ddp"),
    "plain": JobOfCells("plain"),
    "handler": JobOfCells("ddp", handles_term=True),
}


def held_once(order_name: str) -> Fault:
    """Return a fault that holds one rank until the fault is lifted. The rank of the next launch is not held."""
    order = ordered(order_name)

    def inject(scene: Scene) -> Injection:
        make_hold(scene.job.folder, scene.rank)
        return Injection(order(scene).onset, lambda: release(scene.job.folder, scene.rank))

    return inject


@dataclass(frozen=True)
class FaultOfCells:
    """A fault of the matrix."""

    drill: str  # the drill of `zmon drill --list` with the same truth
    fault: Fault  # strikes one launch only
    needs_act: bool  # False: torchrun itself ends such a launch and starts the next one


FAULTS: Mapping[str, FaultOfCells] = {
    "frozen": FaultOfCells("rank-frozen", signals.stop_rank, needs_act=True),
    "killed": FaultOfCells("rank-killed", signals.kill_rank, needs_act=False),
    "raised": FaultOfCells("rank-raises", ordered("raise"), needs_act=False),
    "size-mismatch": FaultOfCells("size-mismatch", ordered("size"), needs_act=False),
    "gil-held": FaultOfCells("gil-held", held_once("hold_interpreter"), needs_act=True),
    "lock-deadlock": FaultOfCells("lock-deadlock", held_once("deadlock"), needs_act=True),
    "loader-hang": FaultOfCells("loader-hang", held_once("loader_hangs"), needs_act=True),
    "collective-skipped": FaultOfCells("collective-skipped", ordered("skip"), needs_act=True),
}


@dataclass(frozen=True)
class Cell:
    """A fault in a job of one kind, size and step time."""

    fault: str
    job: str
    ranks: int
    step_seconds: float

    def __str__(self) -> str:
        return f"{self.fault}/{self.job}/{self.ranks}/{self.step_seconds:g}"

    @property
    def drill(self) -> Drill:
        """The drill that plays this cell."""
        spec, job = FAULTS[self.fault], JOBS[self.job]
        known = next(drill for drill in ALL if drill.name == spec.drill)
        options = {"max_restarts": MAX_RESTARTS, "handles_term": job.handles_term}
        return replace(known, name=str(self), fault=spec.fault, kinds=(job.kind,), ranks=(self.ranks,), job=options)

    def draw(self, repeat: int, seed: int) -> Draw:
        """Return the job and the struck rank of one repeat; the ranks take turns."""
        return Draw(repeat, seed, JOBS[self.job].kind, self.ranks, self.step_seconds, (seed + repeat) % self.ranks)


def cells(patterns: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells whose names match one of the patterns, such as `frozen/*/2/0.02`."""
    for parts in product(FAULTS, JOBS, RANKS, STEP_SECONDS):
        cell = Cell(*parts)
        if any(fnmatchcase(str(cell), pattern) for pattern in patterns):
            yield cell
