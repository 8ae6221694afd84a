"""Which steps of a job are in the log, and how many are not?

A step is the difference of two boundaries in a row. One whose own boundary or the one before is not there is left out
and counted, never made up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zmon.box import layout
from zmon.box.boundary import Boundary, step_record, totals
from zmon.box.ring import boundary
from zmon.errors import ZmonError
from zmon.schema.step import Measures, StepRecord
from zmon.steplog.format import SUFFIX, Block, Run, blocks, read_header

_NS = 1e-9
_HEADER_BYTES = 4096  # more than any header has


class Step(NamedTuple):
    """A step of a rank."""

    start: float  # unix seconds
    record: StepRecord
    reported: dict[str, float]  # gauges by name, those that were told in this step or before the next


@dataclass
class RunSteps:
    """The steps of one run of a rank, read a segment at a time; what is not there is counted on the way."""

    run: Run
    segments: list[tuple[Path, int]]  # with the size at the first look, for the agent may be writing
    missing: int = 0  # steps between others that are there
    before: int = 0  # steps before the first one that is there
    damaged: list[str] = field(default_factory=list)  # a line for each segment

    def steps(self) -> Iterator[Step]:
        """Every step that is there, oldest first."""
        previous: Boundary | None = None
        step: Step | None = None
        reported: dict[str, float] = {}
        for end in self._boundaries():
            if previous is None:
                self.before = end.steps
            elif end.number != previous.number + 1:
                self.missing += end.steps - previous.steps
                reported = {}
            elif end.kind == layout.STEP:
                if step is not None:
                    yield step
                record = step_record(previous, end)
                reported = reported if step is None else {}  # what was told before the first step is said of it
                step = Step(end.last_step * _NS - record.duration, record, reported)
            reported.update(self._named(end.reported))  # what an evaluation finds out is said of the step before it
            previous = end
        if step is not None:
            yield step

    def num_boundaries(self) -> int:
        """How many are there at most; quick, for none is unpacked."""
        return sum(block.count for path, size in self.segments for block in _blocks(path, size) if block)

    def so_far(self) -> Measures:
        """All of the run up to the last boundary that is there."""
        for path, size in reversed(self.segments):
            for block in reversed([*_blocks(path, size)]):
                for found in reversed([*self._whole(block)] if block else []):
                    return totals(found).measures
        return Measures()

    def _named(self, reported: Mapping[int, float]) -> dict[str, float]:
        names = self.run.reports
        return {names[at]: value for at, value in reported.items() if at < len(names)}

    def _boundaries(self) -> Iterator[Boundary]:
        last = 0
        for path, size in self.segments:
            num_damaged = 0
            for block in _blocks(path, size):
                if block is None:
                    num_damaged += 1
                    continue
                for found in self._whole(block, last):
                    last = found.number
                    yield found
            if num_damaged:
                self.damaged.append(f"{path} is damaged in {num_damaged} places, the rest of it is used")

    def _whole(self, block: Block, after: int = 0) -> Iterator[Boundary]:
        raw = block.boundaries()
        for at, number in enumerate(range(block.first, block.last + 1)):
            if number > after and (found := boundary(raw, number, self.run.seed, at * layout.BOUNDARY_SIZE)):
                yield found


def read_runs(folder: Path) -> tuple[list[RunSteps], list[str]]:
    """The runs in a job's folder by attempt and rank, and a line for each segment that cannot be used."""
    found: defaultdict[tuple[int, int, float, str], list[tuple[Path, int]]] = defaultdict(list)
    runs: dict[str, Run] = {}
    unusable: list[str] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            with path.open("rb") as file:
                run, _ = read_header(file.read(_HEADER_BYTES))
            found[run.attempt, run.rank, run.start, run.run_uid].append((path, path.stat().st_size))
            runs[run.run_uid] = run  # the newest segment knows the names of all its gauges
        except FileNotFoundError:  # the agent deleted it: it was the oldest
            continue
        except (OSError, ZmonError) as error:
            unusable.append(f"cannot use {path}: {getattr(error, 'strerror', None) or error}")
    return [RunSteps(runs[key[-1]], segments) for key, segments in sorted(found.items())], unusable


def _blocks(path: Path, size: int) -> Iterator[Block | None]:
    """None for a stretch that is damaged; nothing where the agent deleted the segment meanwhile."""
    try:
        with path.open("rb") as file:
            data = file.read(size)
        _, at = read_header(data)
    except FileNotFoundError:
        return
    except (OSError, ZmonError):
        yield None
        return
    yield from blocks(data, at)
