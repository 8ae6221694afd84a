"""Reads steps from the step log, and counts those that are missing.

A step is the difference of two consecutive boundaries. A step without one of its two boundaries is left out and
counted, never invented.
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
from zmon.box.versions import LAYOUTS
from zmon.errors import ZmonError
from zmon.schema.step import Measures, StepRecord
from zmon.steplog.format import SUFFIX, Block, Run, blocks, read_header

_NS = 1e-9
_HEADER_BYTES = 4096  # larger than any header


class Step(NamedTuple):
    """One step of a rank."""

    start: float  # unix seconds
    record: StepRecord
    reported: dict[str, float]  # gauges by name that the job reported in this step or before the next one


@dataclass
class RunSteps:
    """The steps of one run of a rank, read one segment at a time. Iterating also counts what is missing."""

    run: Run
    segments: list[tuple[Path, int]]  # each with its size at the beginning, because the agent may be writing
    missing: int = 0  # steps missing between others
    missing_before: int = 0  # steps missing before the first one
    damaged: list[str] = field(default_factory=list)  # one line for each damaged segment

    def steps(self) -> Iterator[Step]:
        """Yield every step in the log, oldest first."""
        previous: Boundary | None = None
        step: Step | None = None
        reported: dict[str, float] = {}
        for end in self._boundaries():
            if previous is None:
                self.missing_before = end.steps
            elif end.number != previous.number + 1:
                self.missing += end.steps - previous.steps
                reported = {}
            elif end.kind == layout.STEP:
                if step is not None:
                    yield step
                record = step_record(previous, end)
                reported = reported if step is None else {}  # reports before the first step belong to it
                step = Step(end.last_step * _NS - record.duration, record, reported)
            reported.update(self._named(end.reported))  # reports of an evaluation belong to the step before it
            previous = end
        if step is not None:
            yield step

    def num_boundaries(self) -> int:
        """Return an upper bound of the number of boundaries. It is quick, because it unpacks no block."""
        return sum(block.count for path, size in self.segments for block in _blocks(path, size) if block)

    def totals(self) -> Measures:
        """Return the totals of the run up to the last boundary in the log."""
        for path, size in reversed(self.segments):
            for block in reversed([*_blocks(path, size)]):
                for last in reversed([*self._valid(block)] if block else []):
                    return totals(last).measures
        return Measures()

    def _named(self, reported: Mapping[int, float]) -> dict[str, float]:
        names = self.run.reports
        return {names[index]: value for index, value in reported.items() if index < len(names)}

    def _boundaries(self) -> Iterator[Boundary]:
        last = 0
        for path, size in self.segments:
            num_damaged = 0
            for block in _blocks(path, size):
                if block is None:
                    num_damaged += 1
                    continue
                for valid in self._valid(block, last):
                    last = valid.number
                    yield valid
            if num_damaged:
                self.damaged.append(f"{path} is damaged in {num_damaged} places; the rest of it is used")

    def _valid(self, block: Block, after: int = 0) -> Iterator[Boundary]:
        """Yield the boundaries of a block that are not torn and have a number above `after`."""
        size, box_layout = self.run.boundary_size, LAYOUTS[self.run.box_version]
        raw = block.boundaries(size)
        for index, number in enumerate(range(block.first, block.last + 1)):
            if number > after and (valid := boundary(raw, number, self.run.seed, box_layout, index * size)):
                yield valid


def read_runs(folder: Path) -> tuple[list[RunSteps], list[str]]:
    """Return the runs in a job's directory, by attempt and rank, and one line for each segment that is not usable."""
    segments: defaultdict[tuple[int, int, float, str], list[tuple[Path, int]]] = defaultdict(list)
    runs: dict[str, Run] = {}
    unusable: list[str] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            with path.open("rb") as file:
                run, _ = read_header(file.read(_HEADER_BYTES))
            segments[run.attempt, run.rank, run.start, run.run_uid].append((path, path.stat().st_size))
            runs[run.run_uid] = run  # the newest segment has the names of all gauges
        except FileNotFoundError:  # the agent has deleted it, because it was the oldest
            continue
        except (OSError, ZmonError) as error:
            unusable.append(f"cannot use {path}: {getattr(error, 'strerror', None) or error}")
    return [RunSteps(runs[key[-1]], paths) for key, paths in sorted(segments.items())], unusable


def _blocks(path: Path, size: int) -> Iterator[Block | None]:
    """Yield the blocks of a segment, and None for each damaged part; nothing if the agent has deleted the segment."""
    try:
        with path.open("rb") as file:
            data = file.read(size)
        _, offset = read_header(data)
    except FileNotFoundError:
        return
    except (OSError, ZmonError):
        yield None
        return
    yield from blocks(data, offset)
